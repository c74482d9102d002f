// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// idleVariable makes this test's program wait until its input ends.
const idleVariable = "TEST_IDLE_PROCESS"

// TestRelaxTimers: all threads of a process have the slack, and those that come
// later.
func TestRelaxTimers(t *testing.T) {
	if os.Getenv(idleVariable) != "" {
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
		return
	}
	process := exec.Command(os.Args[0], "-test.run", "^TestRelaxTimers$")
	process.Env = append(os.Environ(), idleVariable+"=1")
	input, err := process.StdinPipe()
	must.NoError(t, err)
	output, err := process.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, process.Start())
	t.Cleanup(func() {
		must.NoError(t, input.Close())
		must.NoError(t, process.Wait())
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	must.NoError(t, err)
	must.Eq(t, "ready\n", line)

	must.ErrorIs(t, relaxTimers(1<<30), os.ErrNotExist)
	err = relaxTimers(process.Process.Pid)
	if os.Geteuid() != 0 {
		must.ErrorIs(t, err, os.ErrPermission)
		return
	}
	must.NoError(t, err)
	slacks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", process.Process.Pid))
	must.NoError(t, err)
	must.SliceNotEmpty(t, slacks)
	for _, thread := range slacks {
		slack, err := os.ReadFile(filepath.Join("/proc", filepath.Base(thread), "timerslack_ns"))
		must.NoError(t, err)
		must.Eq(t, "2000000", strings.TrimSpace(string(slack)))
	}
}
