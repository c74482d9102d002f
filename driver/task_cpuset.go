// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// cpusetPeriod is how often a task's CPUs follow the agent's choice on cgroup
// version 2 (task-driver CP-3).
const cpusetPeriod = time.Second

// movePasses bounds how often the processes of a container are looked for anew.
const movePasses = 10

// pinCPUs moves the container's processes into the agent's cpuset on cgroup
// version 1 (task-driver CP-1). On version 2 a loop follows the agent.
func (s *starting) pinCPUs() error {
	dir := cpusetDir(s.cfg)
	if dir == "" || cgroupV2() || s.options.CpusetCPUs != "" || s.found.State == nil || s.found.State.Pid == 0 {
		return nil
	}
	if err := movePids(s.found.State.Pid, s.id, dir); err != nil {
		return recoverable(fmt.Errorf("failed to move container %q into cpuset %q: %w", s.id, dir, err))
	}
	return nil
}

// cpusetDir is the cgroup that the agent made for the task; empty when it made none.
func cpusetDir(cfg *drivers.TaskConfig) string {
	if cfg.Resources == nil || cfg.Resources.LinuxResources == nil {
		return ""
	}
	return cfg.Resources.LinuxResources.CpusetCgroupPath
}

// movePids moves a container's main process and all others of its cpuset cgroup.
// Processes that end meanwhile are fine. The kernel shows an ended process in the
// root cgroup, and its id may be somebody else's by now: whatever is not in the
// container's own cgroup is left alone.
func movePids(pid int, containerID, dir string) error {
	path, err := cgroupPath(pid, "cpuset")
	if err != nil || !strings.Contains(path, containerID) {
		return nil // it has ended
	}
	from, to := filepath.Join(cgroupRoot, "cpuset", path), filepath.Join(dir, "cgroup.procs")
	return moveAll(pid, func() ([]int, error) { return cgroupPids(from) }, func(pid int) error {
		return os.WriteFile(to, []byte(strconv.Itoa(pid)), 0o644)
	})
}

// moveAll moves a process and those that are listed. The list is read again until
// nothing in it is new: one that forks before it is moved leaves its child behind
// (task-driver CP-2).
func moveAll(pid int, list func() ([]int, error), move func(pid int) error) error {
	moved, fresh := map[int]bool{}, []int{pid}
	for range movePasses {
		for _, p := range fresh {
			moved[p] = true
			if err := move(p); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		all, err := list()
		fresh = slices.DeleteFunc(all, func(p int) bool { return moved[p] })
		if err != nil || len(fresh) == 0 {
			return nil // a cgroup that is gone holds nothing
		}
	}
	return nil
}

// followCPUs copies the agent's choice of CPUs into a container's cgroup until
// the task ends. Cgroup version 2 only.
func (t *task) followCPUs(from, to string) {
	tick := time.NewTicker(cpusetPeriod)
	defer tick.Stop()
	for {
		copyCPUs(from, to)
		select {
		case <-tick.C:
		case <-t.done:
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// copyCPUs writes only what differs; a cgroup that is gone is nothing to report.
func copyCPUs(from, to string) {
	want, err := os.ReadFile(filepath.Join(from, "cpuset.cpus"))
	if err != nil {
		return
	}
	file := filepath.Join(to, "cpuset.cpus")
	have, err := os.ReadFile(file)
	if err != nil || bytes.Equal(want, have) {
		return
	}
	_ = os.WriteFile(file, want, 0o644) // tried again in a second
}

// attachCgroup finds the container's cgroup on version 2 through its main
// process, whatever the engine's cgroup driver calls it, and follows it.
func (d *Driver) attachCgroup(p *parts, t *task) {
	defer d.guard("cgroup")
	pid := p.mainProcess(t)
	if pid == 0 {
		return
	}
	path, err := cgroupPath(pid, "")
	if err != nil {
		d.logger.Debug("the container's cgroup is not known", "task_id", t.cfg.ID, "error", err)
		return
	}
	if !strings.Contains(path, t.state.ContainerID) {
		return // the process has ended, and another may have its id
	}
	d.followCgroup(t, filepath.Join(cgroupRoot, path))
}

// mainProcess is the id of the container's main process, asked for until the engine
// answers: it may be away when a task is recovered. 0 when the container has ended.
func (p *parts) mainProcess(t *task) int {
	tries := reconnects()
	for !t.exited() {
		found, err := p.engine.Inspect(t.ctx, t.state.ContainerID)
		if err == nil && found.State != nil {
			return found.State.Pid
		}
		if err == nil || errdefs.IsNotFound(err) || tries.pause(t.ctx) != nil {
			return 0
		}
	}
	return 0
}

// followCgroup looks after the container's cgroup until the task ends: what memory
// limits did to it, and the CPUs that the agent chooses.
func (d *Driver) followCgroup(t *task, dir string) {
	t.setCgroupDir(dir)
	defer d.kills.Follow(t, dir)()
	if from := cpusetDir(t.cfg); from != "" && !t.state.CPUSetByUser {
		if !filepath.IsAbs(from) {
			from = filepath.Join(cgroupRoot, from)
		}
		t.followCPUs(from, dir)
		return
	}
	select {
	case <-t.done:
	case <-t.ctx.Done():
	}
}
