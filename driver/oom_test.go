// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// longPatience is longer than any busy machine needs.
const longPatience = time.Minute

// awaitMark waits until a task is known to have run out of memory.
func awaitMark(t *testing.T, tk *task) {
	t.Helper()
	select {
	case <-tk.oom:
	case <-time.After(longPatience):
		t.Fatal("nobody noted that the task ran out of memory")
	}
}

// fakeCgroup is the directory of a container's cgroup on version 2.
type fakeCgroup string

func newFakeCgroup(t *testing.T) fakeCgroup {
	c := fakeCgroup(filepath.Join(t.TempDir(), "container"))
	must.NoError(t, os.Mkdir(string(c), 0o755))
	c.count(t, 0)
	return c
}

// count has the kernel count kills.
func (c fakeCgroup) count(t *testing.T, kills int) {
	t.Helper()
	text := fmt.Sprintf("low 0\nhigh 0\nmax 41\noom %d\noom_kill %d\noom_group_kill 0\n", kills, kills)
	must.NoError(t, os.WriteFile(filepath.Join(string(c), memoryEvents), []byte(text), 0o600))
}

// TestOutOfMemoryByCgroup: the cgroup's own count says what the engine does not
// (cases DRV-13); at the end of the container the cgroup is gone.
func TestOutOfMemoryByCgroup(t *testing.T) {
	for _, tc := range []struct {
		code  int
		state bool // the container's state says so
		kills int  // of the cgroup
		want  bool
		event bool
	}{
		{137, false, 0, false, false},
		{137, true, 0, true, false},
		{137, false, 1, true, false},
		{0, false, 1, false, true},
	} {
		t.Run(fmt.Sprintf("code %d, state %v, kills %d", tc.code, tc.state, tc.kills), func(t *testing.T) {
			b := newBench(t, nil)
			cfg := b.task(nil)
			id, _ := b.start(cfg)
			tk, err := b.driver.tasks.Get(cfg.ID)
			must.NoError(t, err)
			events := b.driver.events.Subscribe(t.Context())

			cgroup := newFakeCgroup(t)
			left := make(chan struct{})
			go func() { defer close(left); b.driver.followCgroup(tk, string(cgroup)) }()
			if tc.kills > 0 {
				awaitWatches(t, b.driver, 1)
				cgroup.count(t, tc.kills)
				awaitMark(t, tk)
			}
			must.NoError(t, os.RemoveAll(string(cgroup)))
			b.engine.end(id, tc.code, tc.state)
			must.Eq(t, tc.want, b.wait(cfg.ID).OOMKilled)
			if tc.event {
				must.StrContains(t, (<-events).Message, "A child process was killed for lack of memory")
			}
			<-left
			awaitWatches(t, b.driver, 0)
		})
	}
}

// awaitWatches waits until so many cgroups are watched.
func awaitWatches(t *testing.T, d *Driver, want int) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.Timeout(longPatience), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
		d.kills.mu.Lock()
		defer d.kills.mu.Unlock()
		return d.kills.events != nil && d.kills.events.Watching() == want
	})))
}

// TestOutOfMemoryBeforeTheWatch: a process that takes a task up again hears of the
// kills before it.
func TestOutOfMemoryBeforeTheWatch(t *testing.T) {
	cgroup := newFakeCgroup(t)
	cgroup.count(t, 2)
	w := &killWatch{logger: hclog.NewNullLogger()}
	tk := newTask(t.Context(), &drivers.TaskConfig{}, &taskState{})
	stop := w.Follow(tk, string(cgroup))
	must.True(t, tk.oomSeen())
	stop()
	w.close()

	other := newTask(t.Context(), &drivers.TaskConfig{}, &taskState{})
	w.Follow(other, filepath.Join(string(cgroup), "none"))()
	must.False(t, other.oomSeen())
}

// TestOutOfMemoryByEvent: an engine's report counts whenever it comes (cases DRV-13).
func TestOutOfMemoryByEvent(t *testing.T) {
	for _, tc := range []struct {
		name  string
		start func(*bench) // before the task
		end   func(b *bench, id string)
	}{
		{
			name: "before the end of the start",
			start: func(b *bench) {
				b.engine.during = map[string]func(){"started": func() { b.engine.oom("id-1") }}
			},
			end: func(b *bench, id string) { b.engine.end(id, 137, false) },
		},
		{
			name: "after the end of the container",
			end:  func(b *bench, id string) { b.engine.end(id, 137, false); b.engine.oom(id) },
		},
		{
			name: "while the stream is broken",
			end: func(b *bench, id string) {
				b.engine.breakOOMs()
				b.engine.oom(id)
				b.engine.end(id, 137, false)
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.driver.oomPatience = longPatience
			if tc.start != nil {
				tc.start(b)
			}
			cfg := b.task(nil)
			id, _ := b.start(cfg)
			tc.end(b, id)
			must.True(t, b.wait(cfg.ID).OOMKilled)
		})
	}
}

// TestKilledOnPurpose: nobody waits for a report about a task that was killed by
// its agent.
func TestKilledOnPurpose(t *testing.T) {
	for name, kill := range map[string]func(*bench, string) error{
		"kill signal": func(b *bench, id string) error { return b.StopTask(id, time.Hour, "SIGKILL") },
		"signal":      func(b *bench, id string) error { return b.SignalTask(id, "SIGKILL") },
		"number":      func(b *bench, id string) error { return b.SignalTask(id, "9") },
		"stop":        func(b *bench, id string) error { b.engine.stopCode = 137; return b.StopTask(id, 0, "") },
		"destroy":     func(b *bench, id string) error { b.engine.stopCode = 137; return b.DestroyTask(id, true) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.driver.oomPatience = time.Hour
			cfg := b.task(nil)
			b.start(cfg)
			result, err := b.driver.WaitTask(t.Context(), cfg.ID)
			must.NoError(t, err)
			must.NoError(t, kill(b, cfg.ID))
			r := <-result
			must.Eq(t, 137, r.ExitCode)
			must.False(t, r.OOMKilled)
		})
	}
}

// TestReportsOfNoTask: what is remembered of containers without a task has a limit.
func TestReportsOfNoTask(t *testing.T) {
	reports := &oomReports{tasks: newStore()}
	for n := range maxUnclaimed + 1 {
		reports.Note(strconv.Itoa(n))
		reports.Note(strconv.Itoa(n))
	}
	must.Len(t, maxUnclaimed, reports.unclaimed)
	marked := func(id string) bool {
		tk := newTask(t.Context(), &drivers.TaskConfig{ID: id}, &taskState{ContainerID: id})
		reports.tasks.Put(tk)
		reports.Claim(tk)
		return tk.oomSeen()
	}
	must.False(t, marked("0"))
	must.True(t, marked("1"))
	must.True(t, marked(strconv.Itoa(maxUnclaimed)))
	must.Len(t, maxUnclaimed-2, reports.unclaimed)
}
