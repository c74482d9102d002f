// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// TestMovePidsLeavesOthersAlone: a task may end before it is pinned; the kernel
// then shows its process in the root cgroup, with everything else of the host.
func TestMovePidsLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	const id = "0f3a9c5e7d1b0f3a9c5e7d1b0f3a9c5e7d1b0f3a9c5e7d1b0f3a9c5e7d1b0f3a"
	for name, pid := range map[string]int{"a process outside of the container": os.Getpid(), "no process": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			must.NoError(t, movePids(pid, id, dir))
			_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
			must.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// TestMoveAll: a container's processes are moved, also one that is born meanwhile
// (task-driver CP-1, CP-2).
func TestMoveAll(t *testing.T) {
	for _, tc := range []struct {
		name    string
		there   []int
		births  map[int]int // moving the one bears the other, in the old cgroup
		errs    map[int]error
		want    []int
		wantErr error
	}{
		{name: "all of them", there: []int{10, 11, 12}, want: []int{10, 11, 12}},
		{name: "a fork meanwhile", there: []int{10, 11}, births: map[int]int{10: 13, 13: 14}, want: []int{10, 11, 13, 14}},
		{name: "one that has ended", there: []int{10, 11}, errs: map[int]error{10: syscall.ESRCH}, want: []int{10, 11}},
		{name: "refused", there: []int{10, 11}, errs: map[int]error{10: syscall.EACCES}, want: []int{10}, wantErr: syscall.EACCES},
	} {
		t.Run(tc.name, func(t *testing.T) {
			there, moved := tc.there, []int{}
			err := moveAll(10, func() ([]int, error) { return slices.Clone(there), nil }, func(pid int) error {
				moved = append(moved, pid)
				there = slices.DeleteFunc(there, func(p int) bool { return p == pid })
				if child := tc.births[pid]; child != 0 {
					there = append(there, child)
				}
				return tc.errs[pid]
			})
			must.True(t, errors.Is(err, tc.wantErr), must.Sprint(err))
			must.Eq(t, tc.want, moved)
		})
	}
	t.Run("one that forks for ever", func(t *testing.T) {
		last := 10
		must.NoError(t, moveAll(last, func() ([]int, error) { last++; return []int{last}, nil }, func(int) error { return nil }))
	})
}

// TestMainProcess: an engine that is away when a task is recovered is asked again
// (task-driver CP-3).
func TestMainProcess(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	id, _ := b.start(cfg)
	p, err := b.driver.ready()
	must.NoError(t, err)
	tk := newTask(t.Context(), cfg, &taskState{ContainerID: id})
	asked := b.engine.called("inspect")
	b.engine.fail("inspect", errAway, errAway, errAway) // more than the running task's own watch may take
	must.Eq(t, 1, p.mainProcess(tk))
	must.GreaterEq(t, asked+2, b.engine.called("inspect"))
	tk.finish(&drivers.ExitResult{}, time.Now())
	must.Eq(t, 0, p.mainProcess(tk))
}

// TestFollowCPUs: a container's cgroup follows what the agent chooses (task-driver
// CP-3).
func TestFollowCPUs(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write := func(dir, cpus string) {
		must.NoError(t, os.WriteFile(filepath.Join(dir, "cpuset.cpus"), []byte(cpus), 0o600))
	}
	follows := func(cpus string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond), wait.BoolFunc(func() bool {
			text, err := os.ReadFile(filepath.Join(to, "cpuset.cpus"))
			return err == nil && string(text) == cpus
		})))
	}
	write(from, "0-1\n")
	write(to, "0-3\n")
	tk := newTask(t.Context(), &drivers.TaskConfig{}, &taskState{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tk.followCPUs(from, to)
	}()
	follows("0-1\n")
	write(from, "2\n")
	follows("2\n")
	tk.cancel()
	<-ended
}
