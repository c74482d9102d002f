// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package orphan

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// roleEnv makes the test program play another part: an agent that starts a plugin
// and waits, or the plugin, used or not.
const roleEnv = "GPU_DOCKER_ORPHAN_TEST"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(m.Run())
	case "agent of unused", "agent of used":
		playAgent(strings.TrimPrefix(role, "agent of "))
	default:
		EndUnlessUsed(func() bool { return role == "used" })
		fmt.Println(os.Getpid())
		time.Sleep(time.Minute) // the test ends it, or it ends itself
	}
}

// playAgent starts a plugin, which prints its process id, and waits to be killed.
func playAgent(role string) {
	plugin := exec.Command("/proc/self/exe")
	plugin.Env = append(os.Environ(), roleEnv+"="+role)
	plugin.Stdout = os.Stdout
	if err := plugin.Start(); err != nil {
		panic(err)
	}
	_ = plugin.Wait()
}

// startAgent returns the agent and its plugin's process id.
func startAgent(t *testing.T, role string) (*exec.Cmd, int) {
	t.Helper()
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), roleEnv+"=agent of "+role)
	out, err := agent.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, agent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	must.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return agent, pid
}

// runs says whether a process exists and is no zombie, which it may stay for as
// long as nobody adopts it.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestOrphanEnds(t *testing.T) {
	t.Parallel()
	agent, plugin := startAgent(t, "unused")
	must.True(t, runs(plugin))
	must.NoError(t, agent.Process.Kill())
	_ = agent.Wait()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return !runs(plugin) }),
		wait.Timeout(10*time.Second), wait.Gap(20*time.Millisecond)))
}

func TestUsedPluginOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	agent, plugin := startAgent(t, "used")
	must.NoError(t, agent.Process.Kill())
	_ = agent.Wait()
	must.Wait(t, wait.ContinualSuccess(wait.BoolFunc(func() bool { return runs(plugin) }),
		wait.Timeout(3*checkPeriod), wait.Gap(50*time.Millisecond)))
}

func TestOutlives(t *testing.T) {
	t.Parallel()
	yes, no := func() bool { return true }, func() bool { return false }
	for _, tc := range []struct {
		name               string
		parentLives, inUse func() bool
		want               bool
	}{
		{"used under its agent", yes, yes, false},
		{"used, agent gone", no, yes, false},
		{"unused, agent gone", no, no, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			must.Eq(t, tc.want, outlives(tc.parentLives, tc.inUse, time.Millisecond))
		})
	}
}
