// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/inotify"
	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// oomPatience is how long the result of a task waits for a report that it ran out
	// of memory, when it was killed and nobody asked for that. Engine and kernel tell
	// in no fixed order.
	oomPatience = time.Second
	// killedExit is the exit code of whoever was killed by SIGKILL.
	killedExit = 137
	// maxUnclaimed is how many containers of no task are remembered; engines remember
	// as many events.
	maxUnclaimed = 256
	// memoryEvents is the file of a cgroup of version 2 that counts what memory limits did.
	memoryEvents = "memory.events"
)

// oomReports are the containers in which the engine saw a process killed for lack
// of memory. An engine may tell before the task is in the table: a container runs for
// a moment before its start is over, and a new process hears of what was before it.
// Safe for concurrent use.
type oomReports struct {
	tasks *store

	mu        sync.Mutex // guards everything below, and that no report comes between table and list
	unclaimed []string   // containers of no task, the latest last
}

// Note marks the container's task or remembers the container.
func (r *oomReports) Note(containerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks.All() {
		if t.state.ContainerID == containerID {
			t.noteOOM()
			return
		}
	}
	if slices.Contains(r.unclaimed, containerID) {
		return
	}
	r.unclaimed = append(r.unclaimed, containerID)
	if extra := len(r.unclaimed) - maxUnclaimed; extra > 0 {
		r.unclaimed = slices.Delete(r.unclaimed, 0, extra)
	}
}

// Claim marks a task that is in the table by now if its container was noted before.
func (r *oomReports) Claim(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.unclaimed, t.state.ContainerID); at >= 0 {
		r.unclaimed = slices.Delete(r.unclaimed, at, at+1)
		t.noteOOM()
	}
}

// watchOOM notes the engine's reports that a container ran out of memory: on
// cgroup version 2 the container's own state does not always tell (task-driver
// WT-3). A stream that was opened again begins with what the engine remembers, so
// nothing that came between two is lost.
func (d *Driver) watchOOM(ctx context.Context, p *parts) {
	for {
		err := p.engine.OOMs(ctx, d.ooms.Note)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			d.logger.Debug("the engine's event stream ended, will be opened again", "error", err)
		}
		select {
		case <-time.After(maxReconnect):
		case <-ctx.Done():
			return
		}
	}
}

// awaitOOM gives the reports about a task that was killed the time to come. A task
// that somebody wanted to end has its reason already.
func (d *Driver) awaitOOM(t *task, s *container.State) {
	if s.ExitCode != killedExit || s.OOMKilled || t.endWanted() {
		return
	}
	waitFor(t.ctx, t.oom, d.oomPatience)
}

// killWatch watches the memory.events of all tasks with one inotify instance, begun
// with the first. Cgroup version 2 only. Safe for concurrent use.
type killWatch struct {
	logger hclog.Logger

	mu     sync.Mutex        // guards everything below
	events *inotify.Instance // nil before the first task
	closed bool
}

// Follow marks a task as soon as its cgroup counts a kill. The cgroup is made at the
// container's start, so that every kill is the task's, also one before a restart of
// the plugin; and it is gone moments after the container's end, so that to look then
// is too late. The result ends the watch.
func (w *killWatch) Follow(t *task, cgroup string) (stop func()) {
	look := func() {
		if oomKills(cgroup) > 0 {
			t.noteOOM()
		}
	}
	stop, err := w.add(filepath.Join(cgroup, memoryEvents), look)
	if err != nil {
		w.logger.Debug("only the engine tells whether this task runs out of memory", "task_id", t.cfg.ID, "error", err)
		stop = func() {}
	}
	look()
	return stop
}

func (w *killWatch) add(file string, changed func()) (func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, os.ErrClosed
	}
	if w.events == nil {
		events, err := inotify.New(unix.IN_NONBLOCK)
		if err != nil {
			return nil, err
		}
		w.events = events
		go func() {
			defer guard.Log(w.logger, "the watch on cgroups")
			events.Run()
		}()
	}
	return w.events.Add(file, unix.IN_MODIFY, func(inotify.Event) { changed() })
}

// close ends all watches, and none begins any more.
func (w *killWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.events != nil {
		if err := w.events.Close(); err != nil {
			w.logger.Debug("closing the watch on cgroups", "error", err)
		}
	}
}

// oomKills is how many processes of a cgroup and of those below it were killed for
// lack of memory; 0 when the cgroup does not tell, or is gone.
func oomKills(cgroup string) int {
	text, err := os.ReadFile(filepath.Join(cgroup, memoryEvents))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if count, ours := strings.CutPrefix(line, "oom_kill "); ours {
			n, _ := strconv.Atoi(strings.TrimSpace(count)) // 0 for what is no number
			return n
		}
	}
	return 0
}
