// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// TestExecTimeout: a command that takes too long is killed with all that it started
// (task-driver EX-2). The test's own cgroup passes for the container's.
func TestExecTimeout(t *testing.T) {
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	must.NoError(t, err)
	container, _, _ := strings.Cut(string(cgroup), "\n")
	for _, tc := range []struct{ name, script string }{
		{"a child", "echo up; sleep 600; true"},
		{"a grandchild", "sh -c 'echo up; sleep 600; true'; true"},
		{"one whose parent has ended", "(sleep 600 &); echo up; sleep 600; true"},
		{"one with a session of its own", "echo up; setsid -w sleep 600; true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lead, output := session(t, tc.script)
			b := newBench(t, nil)
			cfg := b.task(nil)
			b.driver.tasks.Put(newTask(t.Context(), cfg, &taskState{ContainerID: container}))
			b.engine.exec.set(func(x *fakeExec) { x.state.Running, x.state.Pid = true, lead })

			_, err = b.ExecTask(cfg.ID, []string{"/check.sh"}, time.Millisecond)
			must.ErrorContains(t, err, "deadline exceeded")
			// The pipe ends when the last process that writes to it has.
			must.NoError(t, output.SetReadDeadline(time.Now().Add(10*time.Second)))
			_, err = io.ReadAll(output)
			must.NoError(t, err, must.Sprint("something is left"))
		})
	}
	t.Run("a process of another container is left alone", func(t *testing.T) {
		lead, _ := session(t, "echo up; sleep 600; true")
		must.SliceEmpty(t, stopTree(lead, "another"))
		must.SliceContains(t, stopTree(lead, container), lead)
	})
}

// session starts a script as the leader of a session, as runtimes do, and returns its
// id when it has said that it is up.
func session(t *testing.T, script string) (lead int, output *os.File) {
	t.Helper()
	output, w, err := os.Pipe()
	must.NoError(t, err)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout, cmd.SysProcAttr = w, &syscall.SysProcAttr{Setsid: true}
	must.NoError(t, cmd.Start())
	must.NoError(t, w.Close())
	lead = cmd.Process.Pid
	t.Cleanup(func() {
		for _, pid := range processTree(lead, processes()) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // what the test left
		}
		_ = cmd.Wait() // killed
		_ = output.Close()
	})
	up := make([]byte, len("up\n"))
	_, err = io.ReadFull(output, up)
	must.NoError(t, err)
	return lead, output
}

func TestParseStat(t *testing.T) {
	for _, tc := range []struct {
		text string
		want process
		ok   bool
	}{
		{"7 (sh) S 5 7 6 0 -1", process{7, 5, 6}, true},
		{"7 (a) R 1 (b) S 5 7 6 0", process{7, 5, 6}, true},
		{"7 (sh) S 5", process{}, false},
		{"", process{}, false},
	} {
		got, ok := parseStat(7, tc.text)
		must.Eq(t, tc.ok, ok, must.Sprint(tc.text))
		must.Eq(t, tc.want, got)
	}
}
