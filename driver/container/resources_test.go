// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

const mib = 1 << 20

func TestResources_Missing(t *testing.T) {
	t.Parallel()
	for _, r := range []*drivers.Resources{nil, {}, {LinuxResources: &drivers.LinuxResources{}}} {
		in := newInput(t, "")
		in.Task.Resources = r
		_, _, err := Assemble(in)
		must.ErrorIs(t, err, ErrNoResources)
		must.EqError(t, err, "task.Resources is empty")
	}
}

func TestResources_Memory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, options              string
		memory, maximum            int64
		wantMemory, wantReserve    int64
		wantSwap                   int64
		wantError                  string
		wantSwappiness, swappiness int64
	}{
		{name: "plain", memory: 10, wantMemory: 10, wantSwap: 10},
		{name: "maximum", memory: 10, maximum: 20, wantMemory: 20, wantReserve: 10, wantSwap: 20},
		{name: "hard limit", options: "memory_hard_limit = 30", memory: 10, wantMemory: 30, wantReserve: 10, wantSwap: 30},
		{name: "hard limit above maximum", options: "memory_hard_limit = 30", memory: 10, maximum: 20, wantMemory: 30, wantReserve: 10, wantSwap: 30},
		{name: "maximum above hard limit", options: "memory_hard_limit = 15", memory: 10, maximum: 20, wantMemory: 20, wantReserve: 10, wantSwap: 20},
		{name: "hard limit below memory", options: "memory_hard_limit = 5", memory: 10,
			wantError: "memory_hard_limit: 5 MiB is below the task's memory of 10 MiB"},
		{name: "swap", options: "memory_swap = 40", memory: 10, wantMemory: 10, wantSwap: 40},
		{name: "swap below memory", options: "memory_swap = 5", memory: 10, wantError: "memory_swap: 5 MiB is memory plus swap and below the memory limit of 10 MiB"},
		{name: "swappiness", options: "memory_swappiness = 60", memory: 10, wantMemory: 10, wantSwap: 10, wantSwappiness: 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, tc.options)
			in.Task.Resources.NomadResources.Memory.MemoryMB = tc.memory
			in.Task.Resources.NomadResources.Memory.MemoryMaxMB = tc.maximum
			if tc.wantError != "" {
				assembleError(t, in, tc.wantError)
				return
			}
			r := assemble(t, in).HostConfig.Resources
			must.Eq(t, tc.wantMemory*mib, r.Memory)
			must.Eq(t, tc.wantReserve*mib, r.MemoryReservation)
			must.Eq(t, tc.wantSwap*mib, r.MemorySwap)
			must.Eq(t, tc.wantSwappiness, *r.MemorySwappiness)
		})
	}
	in := newInput(t, "memory_swap = -1")
	must.Eq(t, int64(-1), assemble(t, in).HostConfig.MemorySwap)
}

func TestResources_CPU(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, options         string
		ticks                 float64
		wantPeriod, wantQuota int64
	}{
		{name: "no hard limit", options: "cpu_cfs_period = 50000", ticks: 0.25},
		{name: "hard limit", options: "cpu_hard_limit = true", ticks: 0.25, wantPeriod: 100000, wantQuota: 100000},
		{name: "period", options: "cpu_hard_limit = true\ncpu_cfs_period = 10000", ticks: 0.25, wantPeriod: 10000, wantQuota: 10000},
		{name: "period 0 is the default", options: "cpu_hard_limit = true\ncpu_cfs_period = 0", ticks: 0.5, wantPeriod: 100000, wantQuota: 200000},
		{name: "truncated", options: "cpu_hard_limit = true", ticks: 0.333339, wantPeriod: 100000, wantQuota: 4 * 33333},
		{name: "engine's minimum", options: "cpu_hard_limit = true", ticks: 0.0001, wantPeriod: 100000, wantQuota: 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, tc.options)
			in.Task.Resources.LinuxResources.PercentTicks = tc.ticks
			r := assemble(t, in).HostConfig.Resources
			must.Eq(t, int64(1000), r.CPUShares)
			must.Eq(t, tc.wantPeriod, r.CPUPeriod)
			must.Eq(t, tc.wantQuota, r.CPUQuota)
		})
	}
}

func TestResources_Cpuset(t *testing.T) {
	t.Parallel()
	in := newInput(t, "")
	must.Eq(t, "", assemble(t, in).HostConfig.CpusetCpus)
	in.Task.Resources.LinuxResources.CpusetCpus = "2-3"
	must.Eq(t, "2-3", assemble(t, in).HostConfig.CpusetCpus)
	in.Options.CpusetCPUs = "0"
	must.Eq(t, "0", assemble(t, in).HostConfig.CpusetCpus)
}

func TestResources_Pids(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		task, ceiling int64
		want          int64
		wantError     string
	}{
		{name: "none"},
		{name: "the task's", task: 5, want: 5},
		{name: "the plugin's", ceiling: 7, want: 7},
		{name: "below the ceiling", task: 5, ceiling: 7, want: 5},
		{name: "above the ceiling", task: 8, ceiling: 7, wantError: "pids_limit cannot be greater than nomad plugin config pids_limit: 7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, "")
			in.Options.PidsLimit, in.Plugin.PidsLimit = tc.task, tc.ceiling
			if tc.wantError != "" {
				assembleError(t, in, tc.wantError)
				return
			}
			must.Eq(t, tc.want, *assemble(t, in).HostConfig.PidsLimit)
		})
	}
}

func TestResources_Ulimits(t *testing.T) {
	t.Parallel()
	in := newInput(t, "ulimit {\n nproc = \"4242\"\n nofile = \"2048:4096\"\n memlock = \"-1\"\n}")
	in.Plugin.GPU.Defaults.Ulimit = config.StringMap{"stack": "9", "nproc": "1"}
	want := []*container.Ulimit{
		{Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 2048, Hard: 4096}, {Name: "nproc", Soft: 4242, Hard: 4242},
	}
	must.Eq(t, want, assemble(t, in).HostConfig.Ulimits)
	want = append(want, &container.Ulimit{Name: "stack", Soft: 9, Hard: 9})
	must.Eq(t, want, assemble(t, grant(in)).HostConfig.Ulimits)
}

func TestResources_GPUDefaults(t *testing.T) {
	t.Parallel()
	in := newInput(t, "")
	in.Plugin.GPU.Defaults = config.GPUDefaults{ShmSizeBytes: 5, IPCMode: "host"}
	h := assemble(t, in).HostConfig
	must.Eq(t, int64(0), h.ShmSize)
	must.Eq(t, "", string(h.IpcMode))
	h = assemble(t, grant(in)).HostConfig
	must.Eq(t, int64(5), h.ShmSize)
	must.Eq(t, "host", string(h.IpcMode))
	in.Options.ShmSizeBytes, in.Options.IPCMode = 6, "private"
	h = assemble(t, in).HostConfig
	must.Eq(t, int64(6), h.ShmSize)
	must.Eq(t, "private", string(h.IpcMode))
}

func TestResources_CgroupParent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ path, want string }{
		{"", ""},
		{"/sys/fs/cgroup/nomad.slice/a.web.scope", "nomad.slice"},
		{"/sys/fs/cgroup/nomad.slice/share.slice/a.web.scope", "nomad.slice"},
		{"nomad.slice/a.web.scope", "nomad.slice"},
		{"/nomad.slice/a.web.scope", "nomad.slice"},
	} {
		in := newInput(t, "")
		in.Task.Resources.LinuxResources.CpusetCgroupPath = tc.path
		must.Eq(t, "", assemble(t, in).HostConfig.CgroupParent)
		in.Host.CgroupV2 = true
		must.Eq(t, tc.want, assemble(t, in).HostConfig.CgroupParent)
	}
}

func TestResources_OOMScore(t *testing.T) {
	t.Parallel()
	must.Eq(t, 500, assemble(t, newInput(t, "oom_score_adj = 500")).HostConfig.OomScoreAdj)
	in := newInput(t, "oom_score_adj = -500")
	assembleError(t, in, "oom_score_adj: -500 protects the task at the cost of others")
	in.Plugin.AllowPrivileged = true
	must.Eq(t, -500, assemble(t, in).HostConfig.OomScoreAdj)
}
