// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
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

// TestExecSize: a size that is known before the start is given with it, and set again
// for engines that do not take it there (task-driver ES-2).
func TestExecSize(t *testing.T) {
	for _, tc := range []struct {
		name string
		tty  bool
		want *[2]uint
	}{
		{"a terminal gets the latest", true, &[2]uint{50, 100}},
		{"without a terminal there is none", false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			p, err := b.driver.ready()
			must.NoError(t, err)
			sizes := make(chan drivers.TerminalSize, 2)
			sizes <- drivers.TerminalSize{Height: 1, Width: 2}
			sizes <- drivers.TerminalSize{Height: 50, Width: 100}
			b.engine.exec.set(func(x *fakeExec) { x.state.Running, x.state.Pid = true, 1 })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := p.exec(ctx, newTask(ctx, b.task(nil), &taskState{ContainerID: "c"}), execRequest{
					command: []string{"x"}, tty: tc.tty, stdout: io.Discard, stderr: io.Discard, resize: sizes,
				})
				done <- err
			}()
			must.Wait(t, wait.InitialSuccess(wait.Timeout(10*time.Second), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
				return slices.Equal(b.engine.exec.resizes(), [][2]uint{{50, 100}})
			})))
			cancel()
			must.ErrorIs(t, <-done, context.Canceled)
			must.Eq(t, tc.want, b.engine.exec.attached.ConsoleSize)
		})
	}
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
