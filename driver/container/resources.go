// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

const (
	bytesPerMiB = 1 << 20
	// minCPUQuota is the engine's lower limit, in microseconds.
	minCPUQuota = 1000
)

// checkResources fails for a task without resources. They arrive as structs with
// nil parts when they are missing (task-driver GR-5).
func checkResources(in *Input) error {
	r := in.Task.Resources
	if r == nil || r.NomadResources == nil || r.LinuxResources == nil {
		return ErrNoResources
	}
	return nil
}

// resources are the limits of the container. Devices come from elsewhere.
func resources(in *Input) (container.Resources, findings) {
	var f findings
	r := container.Resources{
		CPUShares:  in.Task.Resources.LinuxResources.CPUShares,
		CpusetCpus: cpuset(in),
	}
	if in.Options.CPUHardLimit {
		r.CPUPeriod = in.Options.CPUCFSPeriod
		r.CPUQuota = cpuQuota(in)
	}
	memory(in, &r, &f)
	r.PidsLimit = pidsLimit(in, &f)
	r.Ulimits = ulimits(in, &f)
	if in.Host.CgroupV2 {
		r.CgroupParent = cgroupParent(in.Task.Resources.LinuxResources.CpusetCgroupPath)
	}
	if in.Options.OOMScoreAdj < 0 && !in.Plugin.AllowPrivileged {
		f.option("oom_score_adj", "%d protects the task at the cost of others; use 0 or more, or let the operator set allow_privileged", in.Options.OOMScoreAdj)
	}
	return r, f
}

// cpuset is the task's own choice, else the cores reserved for it; the engine
// sets them before the first process runs (task-driver CP-2, CP-4).
func cpuset(in *Input) string {
	if in.Options.CpusetCPUs != "" {
		return in.Options.CpusetCPUs
	}
	return in.Task.Resources.LinuxResources.CpusetCpus
}

// cpuQuota is the time in microseconds that all processors together may spend in
// a period (task-driver CC-8).
func cpuQuota(in *Input) int64 {
	perCPU := int64(in.Task.Resources.LinuxResources.PercentTicks * float64(in.Options.CPUCFSPeriod))
	return max(perCPU*int64(in.Host.CPUs), minCPUQuota)
}

// memory sets the limits of task-driver CC-9: with a hard limit the scheduler's
// memory is the soft one. Swap is off unless the task asks for it.
func memory(in *Input, r *container.Resources, f *findings) {
	scheduled := in.Task.Resources.NomadResources.Memory
	soft, hard := scheduled.MemoryMB, max(in.Options.MemoryHardLimitMiB, scheduled.MemoryMaxMB)
	if limit := in.Options.MemoryHardLimitMiB; limit > 0 && limit < soft {
		f.option("memory_hard_limit", "%d MiB is below the task's memory of %d MiB; use at least as much, or leave it out", limit, soft)
	}
	if hard > 0 {
		r.Memory, r.MemoryReservation = hard*bytesPerMiB, soft*bytesPerMiB
	} else {
		r.Memory = soft * bytesPerMiB
	}
	swap(in.Options, r, f)
}

// swap sets the sum of memory and swap and how eagerly to swap.
func swap(o *config.Task, r *container.Resources, f *findings) {
	r.MemorySwap = r.Memory
	if limit := o.MemorySwapMiB; limit != nil {
		r.MemorySwap = *limit
		if *limit >= 0 {
			r.MemorySwap = *limit * bytesPerMiB
			if r.MemorySwap < r.Memory {
				f.option("memory_swap", "%d MiB is memory plus swap and below the memory limit of %d MiB; use at least as much, or -1 for no limit",
					*limit, r.Memory/bytesPerMiB)
			}
		}
	}
	swappiness := int64(0)
	if o.MemorySwappiness != nil {
		swappiness = *o.MemorySwappiness
	}
	r.MemorySwappiness = &swappiness
}

// pidsLimit is the task's, else the plugin's; 0 is no limit.
func pidsLimit(in *Input, f *findings) *int64 {
	limit, ceiling := in.Options.PidsLimit, in.Plugin.PidsLimit
	if ceiling > 0 && limit > ceiling {
		f.option("pids_limit", "pids_limit cannot be greater than nomad plugin config pids_limit: %d", ceiling)
	}
	if limit == 0 {
		limit = ceiling
	}
	return &limit
}

// ulimits are the operator's for GPU tasks overlaid with the task's, by name.
func ulimits(in *Input, f *findings) []*container.Ulimit {
	wanted := make(map[string]string)
	if in.GPU != nil {
		maps.Copy(wanted, in.Plugin.GPU.Defaults.Ulimit)
	}
	maps.Copy(wanted, in.Options.Ulimit)
	var all []*container.Ulimit
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		u, err := config.ParseUlimit(name, wanted[name])
		if err != nil {
			f.option("ulimit", "%w", err)
			continue
		}
		all = append(all, u)
	}
	return all
}

// shmSize is the size of /dev/shm in bytes; 0 is the engine's default.
func shmSize(in *Input) int64 {
	if in.Options.ShmSizeBytes == 0 && in.GPU != nil {
		return in.Plugin.GPU.Defaults.ShmSizeBytes
	}
	return in.Options.ShmSizeBytes
}

// cgroupRoot is where the unified hierarchy is mounted.
const cgroupRoot = "/sys/fs/cgroup/"

// cgroupParent is the first element of a task's cgroup path, such as
// "nomad.slice"; the path may be relative to the cgroup root. Empty means that
// the agent manages no cgroup (task-driver CC-20).
func cgroupParent(taskCgroup string) string {
	if taskCgroup == "" {
		return ""
	}
	relative := strings.TrimPrefix(path.Clean(taskCgroup), cgroupRoot)
	first, _, _ := strings.Cut(strings.TrimPrefix(relative, "/"), "/")
	return first
}
