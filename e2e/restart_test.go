//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// counting prints a numbered line ten times a second for ever.
const counting = `i=0; while :; do echo "line $i"; i=$((i+1)); usleep 100000; done`

// TestAgentRestartKeepsTasks restarts the agent, politely and by a crash, under
// a GPU task and one without: same containers, no log line lost or doubled.
func TestAgentRestartKeepsTasks(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	gpu := s.run(job{name: "gpu", image: imageCUDA75, script: counting, gpus: 1})
	plain := s.run(job{name: "plain", image: imagePlain, script: counting})
	before := map[string]string{gpu.ID: s.inspect(gpu.ID).ID, plain.ID: s.inspect(plain.ID).ID}

	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		seen := s.countLines(gpu)
		s.agent.Stop(sig)
		must.NoError(t, s.agent.Start(s.ctx))
		for _, alloc := range []*api.Allocation{gpu, plain} {
			detail := s.inspect(alloc.ID)
			must.Eq(t, before[alloc.ID], detail.ID, must.Sprintf("after signal %v the task has another container", sig))
			must.True(t, detail.State.Running)
			must.Eq(t, 0, detail.RestartCount)
		}
		_, err := s.agent.WaitLogs(s.ctx, gpu, "t", func(text string) error {
			n, err := unbroken(text)
			if err == nil && n <= seen+20 {
				err = fmt.Errorf("only %d lines after %d before the restart", n, seen)
			}
			return err
		})
		must.NoError(t, err)
	}
	other := s.run(job{name: "other", image: imageCUDA75, script: gpuView, gpus: 1})
	must.NotEq(t, reserved(gpu), reserved(other), must.Sprint("a GPU in use was given away after the restarts"))
}

func (s *site) countLines(alloc *api.Allocation) int {
	var n int
	_, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
		var err error
		if n, err = unbroken(text); err == nil && n < 5 {
			err = fmt.Errorf("only %d lines so far", n)
		}
		return err
	})
	must.NoError(s, err)
	return n
}

// unbroken counts the lines of counting's output, which must be 0, 1, 2 … each
// once and in order; the last may be cut.
func unbroken(text string) (int, error) {
	lines := strings.Split(text, "\n")
	lines = lines[:len(lines)-1]
	for i, line := range lines {
		if want := fmt.Sprintf("line %d", i); line != want {
			return i, fmt.Errorf("line %d of the log is %q, want %q", i, line, want)
		}
	}
	return len(lines), nil
}
