// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"bufio"
	"errors"
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

// TestRelaxTimers: all threads of a process have the slack.
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
	if errors.Is(err, os.ErrPermission) {
		return // without CAP_SYS_NICE
	}
	must.NoError(t, err)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", process.Process.Pid))
	must.NoError(t, err)
	must.SliceNotEmpty(t, threads)
	for _, thread := range threads {
		slack, err := os.ReadFile(filepath.Join("/proc", thread.Name(), "timerslack_ns"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended
		}
		must.NoError(t, err)
		must.Eq(t, "2000000", strings.TrimSpace(string(slack)))
	}
}
