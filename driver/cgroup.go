// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupRoot is where the kernel's cgroup file systems are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupV2 says whether the host uses the unified hierarchy alone.
func cgroupV2() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// cgroupPath is a process' cgroup of one version 1 controller, or of the unified
// hierarchy for "", relative to the root of that hierarchy.
func cgroupPath(pid int, controller string) (string, error) {
	file := fmt.Sprintf("/proc/%d/cgroup", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cgroup of process %d: %w", pid, err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		for c := range strings.SplitSeq(fields[1], ",") {
			if c == controller {
				return fields[2], nil
			}
		}
	}
	return "", fmt.Errorf("cgroup of process %d: %q has no line for controller %q", pid, file, controller)
}

// inContainer says whether a process of this host belongs to a container. Both
// cgroup drivers of the engine put the container's id into the path.
func inContainer(pid int, containerID string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && containerID != "" && strings.Contains(string(text), containerID)
}

// cgroupPids are the processes of a cgroup directory.
func cgroupPids(dir string) ([]int, error) {
	f, err := os.Open(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var pids []int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%q holds %q, not a process id", f.Name(), lines.Text())
		}
		pids = append(pids, pid)
	}
	return pids, lines.Err()
}
