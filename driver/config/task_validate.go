// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Validate checks what can be checked without plugin options and host, and fills
// in parsed durations and defaults. It reports every fault.
func (t *Task) Validate() error {
	f := &faults{where: "task config"}
	t.validateImage(f)
	t.validateProcess(f)
	t.validateResources(f)
	t.validateDevices(f)
	t.validateMounts(f)
	t.validateNetwork(f)
	t.GPU.validate(f)
	t.Logs.validate(f)
	if t.ContainerExistsAttempts == 0 {
		t.ContainerExistsAttempts = defaultContainerAttempts
	}
	if t.ContainerExistsAttempts < 0 {
		f.add("container_exists_attempts", "%d must be 1 or more", t.ContainerExistsAttempts)
	}
	return f.err()
}

func (t *Task) validateImage(f *faults) {
	t.Image = strings.TrimPrefix(t.Image, "https://")
	if t.Image == "" {
		f.add("image", "image name required")
	}
	if strings.Contains(t.Load, "://") {
		f.add("load", "%q is a URL; fetch it with an artifact block and name the file below local/", t.Load)
	}
	before := len(f.list)
	t.ImagePullTimeout = f.positive("image_pull_timeout", t.ImagePullTimeoutText, defaultImagePullTimeout)
	if len(f.list) > before {
		f.list[before] = &fault{"Failed to parse image_pull_timeout: " + f.list[before].Error()}
	}
	if t.Variant != "" && t.Arch == "" {
		f.add("variant", "%q needs arch; set for example arch = \"arm\"", t.Variant)
	}
}

func (t *Task) validateProcess(f *faults) {
	if t.Command != "" {
		if err := checkCommand(t.Command); err != "" {
			f.add("command", "%s: %q; remove the spaces or leave the option out", err, t.Command)
		}
	}
	if t.Isolation != "" {
		f.add("isolation", "cannot use isolation mode %q on %s", t.Isolation, runtime.GOOS)
	}
	if t.WorkDir != "" {
		f.absolute("work_dir", t.WorkDir, "/srv")
	}
	if len(t.Hostname) > maxHostname {
		f.add("hostname", "%q has more than %d characters", t.Hostname, maxHostname)
	}
	t.validateNamespaces(f)
	for _, opt := range t.SecurityOpt {
		if opt != "no-new-privileges" && !strings.ContainsAny(opt, "=:") {
			f.add("security_opt", "invalid security_opt: %q; use <key>=<value> or \"no-new-privileges\"", opt)
		}
	}
	for _, name := range sortedKeys(t.Labels) {
		if name == "" {
			f.add("labels", "a label must have a name")
		}
	}
}

// validateNamespaces checks the modes, because some engines take any word they do
// not know for "private".
func (t *Task) validateNamespaces(f *faults) {
	for _, n := range []struct {
		option, value string
		words         []string // accepted as they are
		joins         []string // accepted in front of a name
	}{
		{"pid_mode", t.PidMode, []string{"host"}, []string{"container:"}},
		{"uts_mode", t.UTSMode, []string{"host"}, nil},
		{"userns_mode", t.UsernsMode, []string{"host"}, nil},
		{"ipc_mode", t.IPCMode, []string{"none", "private", "shareable", "host"}, []string{"task:", "container:"}},
		{"cgroupns", t.CgroupNS, []string{"host", "private"}, nil},
	} {
		joined := slices.ContainsFunc(n.joins, func(join string) bool {
			return strings.HasPrefix(n.value, join) && n.value != join
		})
		if n.value != "" && !joined {
			f.oneOf(n.option, n.value, n.words...)
		}
	}
}

// checkCommand says what is wrong with a command that is given.
func checkCommand(command string) string {
	switch trimmed := strings.TrimSpace(command); {
	case trimmed == "":
		return "command empty"
	case trimmed != command:
		return "command contains extra white space"
	default:
		return ""
	}
}

func (t *Task) validateResources(f *faults) {
	if t.CPUCFSPeriod < 0 || t.CPUCFSPeriod > maxCPUCFSPeriod {
		f.add("cpu_cfs_period", "invalid value for cpu_cfs_period: %d; use 1000 to %d microseconds, or 0 for the default %d",
			t.CPUCFSPeriod, maxCPUCFSPeriod, defaultCPUCFSPeriod)
	} else if t.CPUCFSPeriod > 0 && t.CPUCFSPeriod < 1000 {
		f.add("cpu_cfs_period", "invalid value for cpu_cfs_period: %d is below the engine's limit; use 1000 to %d microseconds",
			t.CPUCFSPeriod, maxCPUCFSPeriod)
	}
	t.PidsLimit = max(t.PidsLimit, 0) // -1 is the engine's word for no limit of its own
	if t.CPUCFSPeriod == 0 {
		t.CPUCFSPeriod = defaultCPUCFSPeriod
	}
	for _, n := range []struct {
		option string
		value  int64
	}{
		{"memory_hard_limit", t.MemoryHardLimitMiB},
		{"shm_size", t.ShmSizeBytes},
	} {
		if n.value < 0 {
			f.add(n.option, "%d must not be negative", n.value)
		}
	}
	if t.MemorySwapMiB != nil && *t.MemorySwapMiB < -1 {
		f.add("memory_swap", "%d is not known; use MiB of memory plus swap, or -1 for no limit", *t.MemorySwapMiB)
	}
	if s := t.MemorySwappiness; s != nil && (*s < 0 || *s > 100) {
		f.add("memory_swappiness", "%d is out of range; use 0 to 100", *s)
	}
	if t.OOMScoreAdj < -1000 || t.OOMScoreAdj > 1000 {
		f.add("oom_score_adj", "%d is out of range; use -1000 to 1000", t.OOMScoreAdj)
	}
	for _, name := range sortedKeys(t.Ulimit) {
		if _, err := ParseUlimit(name, t.Ulimit[name]); err != nil {
			f.add("ulimit", "%v", err)
		}
	}
}

func (t *Task) validateDevices(f *faults) {
	for i, d := range t.Devices {
		option := fmt.Sprintf("devices[%d]", i)
		if d.HostPath == "" {
			f.add(option+".host_path", "host path must be set in configuration for devices")
		} else {
			f.absolute(option+".host_path", d.HostPath, "/dev/fuse")
		}
		if d.ContainerPath != "" {
			f.absolute(option+".container_path", d.ContainerPath, "/dev/fuse")
		}
		if strings.Trim(d.CgroupPermissions, "rwm") != "" {
			f.add(option+".cgroup_permissions", "invalid cgroup permission string: %q; use letters of \"rwm\"", d.CgroupPermissions)
		}
	}
}
