// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// cgroupMemory is what the engine's reading lacks on cgroup version 2. Nil
// means not known.
type cgroupMemory struct {
	swap, peak *uint64 // bytes
}

// usage turns an engine reading into Nomad's. nodeMHz is the node's whole CPU
// capacity, 0 when unknown.
func usage(s *container.StatsResponse, nodeMHz float64, extra cgroupMemory) *drivers.TaskResourceUsage {
	return &drivers.TaskResourceUsage{
		Timestamp: s.Read.UTC().UnixNano(),
		ResourceUsage: &drivers.ResourceUsage{
			CpuStats:    cpuUsage(s, nodeMHz),
			MemoryStats: memoryUsage(s.MemoryStats, extra),
		},
	}
}

// cpuUsage compares a reading with the one before. The first reading of a stream
// has none before it, so its load is 0 and not the average since the start of
// the container (task-driver TS-5).
func cpuUsage(s *container.StatsResponse, nodeMHz float64) *drivers.CpuStats {
	now, before := s.CPUStats, s.PreCPUStats
	out := &drivers.CpuStats{
		ThrottledPeriods: now.ThrottlingData.ThrottledPeriods,
		ThrottledTime:    now.ThrottlingData.ThrottledTime,
		Measured:         []string{"Throttled Periods", "Throttled Time", "Percent", "System Mode", "User Mode"},
	}
	cores := float64(onlineCPUs(now))
	if nodeMHz > 0 {
		out.Measured = append(out.Measured, "Total Ticks")
	}
	if s.PreRead.IsZero() || cores == 0 {
		return out
	}
	system := since(now.SystemUsage, before.SystemUsage)
	if system == 0 {
		return out
	}
	percentOf := 100 * cores / system
	out.Percent = percentOf * since(now.CPUUsage.TotalUsage, before.CPUUsage.TotalUsage)
	kernel := since(now.CPUUsage.UsageInKernelmode, before.CPUUsage.UsageInKernelmode)
	user := since(now.CPUUsage.UsageInUsermode, before.CPUUsage.UsageInUsermode)
	if both := kernel + user; both > 0 {
		out.SystemMode = out.Percent * kernel / both
		out.UserMode = out.Percent * user / both
	}
	if nodeMHz > 0 {
		out.TotalTicks = out.Percent / 100 * nodeMHz / cores
	}
	return out
}

// since is the growth of a counter; one that ran backwards grew by nothing.
func since(now, before uint64) float64 {
	if now < before {
		return 0
	}
	return float64(now - before)
}

// onlineCPUs is the engine's count; older ones tell only the readings by core.
func onlineCPUs(s container.CPUStats) int {
	if s.OnlineCPUs > 0 {
		return int(s.OnlineCPUs)
	}
	return len(s.CPUUsage.PercpuUsage)
}

// memoryUsage names the fields that were really measured. The versions of
// cgroups have different counters: "rss" and "cache" are of version 1 only.
func memoryUsage(m container.MemoryStats, extra cgroupMemory) *drivers.MemoryStats {
	out := &drivers.MemoryStats{Usage: m.Usage, Measured: []string{"Usage"}}
	measured := func(field *uint64, name string, value uint64, known bool) {
		if known {
			*field = value
			out.Measured = append(out.Measured, name)
		}
	}
	stat := func(name string) (uint64, bool) { v, ok := m.Stats[name]; return v, ok }

	if rss, v1 := stat("rss"); v1 {
		measured(&out.RSS, "RSS", rss, true)
		cache, ok := stat("cache")
		measured(&out.Cache, "Cache", cache, ok)
		swap, ok := stat("swap")
		measured(&out.Swap, "Swap", swap, ok)
		mapped, ok := stat("mapped_file")
		measured(&out.MappedFile, "Mapped File", mapped, ok)
		measured(&out.MaxUsage, "Max Usage", m.MaxUsage, m.MaxUsage > 0)
		return out
	}
	anon, ok := stat("anon")
	measured(&out.RSS, "RSS", anon, ok)
	file, ok := stat("file")
	measured(&out.Cache, "Cache", file, ok)
	if extra.swap != nil {
		measured(&out.Swap, "Swap", *extra.swap, true)
	}
	if extra.peak != nil {
		measured(&out.MaxUsage, "Max Usage", *extra.peak, true)
	}
	return out
}

// readCgroupMemory reads what only the task's own cgroup tells (task-driver TS-3).
func readCgroupMemory(t *task) cgroupMemory {
	dir := t.cgroup()
	if dir == "" {
		return cgroupMemory{}
	}
	return cgroupMemory{
		swap: readCounter(filepath.Join(dir, "memory.swap.current")),
		peak: readCounter(filepath.Join(dir, "memory.peak")),
	}
}

// readCounter reads a file with one number; nil when it cannot be read.
func readCounter(file string) *uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
