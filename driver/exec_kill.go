// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// killPasses bounds how often what an exec started is looked for anew.
const killPasses = 10

// killExec kills a process that outlived its exec, and what it started: a shell that
// dies alone leaves the command behind that it waits for (task-driver EX-2). The
// engine has no call for that; it tells the process' id on the host. The engine may
// also run elsewhere, so what is not in the container's cgroup is left alone.
func (p *parts) killExec(t *task, id string) {
	state, err := p.engine.ExecInspect(t.ctx, id)
	if err != nil || !state.Running || state.Pid <= 1 {
		return
	}
	for _, pid := range stopTree(state.Pid, t.state.ContainerID) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			p.logger.Warn("could not kill a left-over exec process", "container_id", t.state.ContainerID, "pid", pid, "error", err)
		}
	}
}

// stopTree stops a process and what it started, and returns them. They are stopped
// until no other is found: one that runs may fork, and a child whose parent is
// killed first is nobody's.
func stopTree(lead int, containerID string) []int {
	var stopped []int
	for range killPasses {
		fresh := slices.DeleteFunc(processTree(lead, processes()), func(pid int) bool {
			return slices.Contains(stopped, pid) || !inContainer(pid, containerID)
		})
		if len(fresh) == 0 {
			break
		}
		for _, pid := range fresh {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // one that has ended meanwhile is fine
		}
		stopped = append(stopped, fresh...)
	}
	return stopped
}

// process is a process of this host.
type process struct{ pid, parent, session int }

// processes are those that run now; none where /proc cannot be read.
func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		if found, ok := parseStat(pid, string(text)); ok {
			all = append(all, found)
		}
	}
	return all
}

// parseStat reads /proc/PID/stat: id, name in brackets, state, parent, process group,
// session. The name may hold anything, brackets and spaces too.
func parseStat(pid int, text string) (process, bool) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 4 {
		return process{}, false
	}
	parent, parentErr := strconv.Atoi(fields[1])
	session, sessionErr := strconv.Atoi(fields[3])
	return process{pid, parent, session}, parentErr == nil && sessionErr == nil
}

// processTree is a process, what descends from it, and what else is of its session:
// the runtime makes each exec'd process the leader of one, and a child whose parent
// has ended stays in it.
func processTree(lead int, all []process) []int {
	var tree []int
	belongs := func(p process) bool {
		return p.pid == lead || p.session == lead || slices.Contains(tree, p.parent)
	}
	for grown := true; grown; { // a parent may stand behind its child
		grown = false
		for _, p := range all {
			if !slices.Contains(tree, p.pid) && belongs(p) {
				tree, grown = append(tree, p.pid), true
			}
		}
	}
	return tree
}
