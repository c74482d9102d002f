// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"testing"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// reading is an engine's statistics answer with what the tests look at.
func reading(total, kernel, user, system uint64) *engineapi.StatsResponse {
	now := time.Date(2024, 1, 1, 0, 0, 1, 0, time.UTC)
	s := &engineapi.StatsResponse{Read: now, PreRead: now.Add(-time.Second)}
	s.PreCPUStats.SystemUsage = 1_000_000
	s.PreCPUStats.CPUUsage = engineapi.CPUUsage{TotalUsage: 1000, UsageInKernelmode: 400, UsageInUsermode: 600}
	s.CPUStats.SystemUsage = 1_000_000 + system
	s.CPUStats.CPUUsage = engineapi.CPUUsage{TotalUsage: 1000 + total, UsageInKernelmode: 400 + kernel, UsageInUsermode: 600 + user}
	s.CPUStats.OnlineCPUs = 4
	s.CPUStats.ThrottlingData = engineapi.ThrottlingData{ThrottledPeriods: 5, ThrottledTime: 6}
	return s
}

func TestCPUUsage(t *testing.T) {
	t.Run("of a second", func(t *testing.T) {
		u := cpuUsage(reading(1000, 250, 750, 8000), 8000)
		must.Eq(t, 50, u.Percent) // 1000 of 8000 by 4 cores
		must.Eq(t, 12.5, u.SystemMode)
		must.Eq(t, 37.5, u.UserMode)
		must.Eq(t, 1000, u.TotalTicks) // half of one of four cores with 2000 MHz
		must.Eq(t, 5, u.ThrottledPeriods)
		must.Eq(t, 6, u.ThrottledTime)
		must.SliceContains(t, u.Measured, "Total Ticks")
	})
	t.Run("the first of a stream", func(t *testing.T) {
		s := reading(1000, 250, 750, 8000)
		s.PreRead = time.Time{}
		u := cpuUsage(s, 8000)
		must.Eq(t, 0, u.Percent)
		must.Eq(t, 5, u.ThrottledPeriods)
	})
	t.Run("counters that run backwards", func(t *testing.T) {
		s := reading(0, 0, 0, 8000)
		s.CPUStats.CPUUsage.TotalUsage = 1
		must.Eq(t, 0, cpuUsage(s, 8000).Percent)
		s.CPUStats.SystemUsage = 1
		must.Eq(t, 0, cpuUsage(s, 8000).Percent)
	})
	t.Run("the node's capacity is not known", func(t *testing.T) {
		u := cpuUsage(reading(1000, 250, 750, 8000), 0)
		must.Eq(t, 0, u.TotalTicks)
		must.SliceNotContains(t, u.Measured, "Total Ticks")
	})
	t.Run("no kernel and user time told", func(t *testing.T) {
		u := cpuUsage(reading(1000, 0, 0, 8000), 0)
		must.Eq(t, 50, u.Percent)
		must.Eq(t, 0, u.SystemMode)
	})
	t.Run("an engine that does not count CPUs", func(t *testing.T) {
		s := reading(1000, 250, 750, 8000)
		s.CPUStats.OnlineCPUs, s.CPUStats.CPUUsage.PercpuUsage = 0, []uint64{1, 2}
		must.Eq(t, 25, cpuUsage(s, 0).Percent)
	})
}

func TestMemoryUsage(t *testing.T) {
	swap, peak := uint64(70), uint64(80)
	for _, tc := range []struct {
		name  string
		in    engineapi.MemoryStats
		extra cgroupMemory
		want  drivers.MemoryStats
	}{
		{
			"cgroup version 1",
			engineapi.MemoryStats{Usage: 100, MaxUsage: 120, Stats: map[string]uint64{"rss": 60, "cache": 30, "swap": 5, "mapped_file": 7}},
			cgroupMemory{},
			drivers.MemoryStats{
				RSS: 60, Cache: 30, Swap: 5, MappedFile: 7, Usage: 100, MaxUsage: 120,
				Measured: []string{"Usage", "RSS", "Cache", "Swap", "Mapped File", "Max Usage"},
			},
		},
		{
			"cgroup version 2",
			engineapi.MemoryStats{Usage: 100, Stats: map[string]uint64{"anon": 60, "file": 30}},
			cgroupMemory{swap: &swap, peak: &peak},
			drivers.MemoryStats{
				RSS: 60, Cache: 30, Swap: 70, Usage: 100, MaxUsage: 80,
				Measured: []string{"Usage", "RSS", "Cache", "Swap", "Max Usage"},
			},
		},
		{
			"only what is told",
			engineapi.MemoryStats{Usage: 100, Stats: map[string]uint64{"anon": 60}},
			cgroupMemory{},
			drivers.MemoryStats{RSS: 60, Usage: 100, Measured: []string{"Usage", "RSS"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, &tc.want, memoryUsage(tc.in, tc.extra))
		})
	}
}

func TestNodeMHz(t *testing.T) {
	must.Eq(t, 0, nodeMHz(&drivers.TaskConfig{}))
	must.Eq(t, 0, nodeMHz(&drivers.TaskConfig{Resources: &drivers.Resources{LinuxResources: &drivers.LinuxResources{CPUShares: 100}}}))
	must.Eq(t, 5000, nodeMHz(&drivers.TaskConfig{Resources: &drivers.Resources{LinuxResources: &drivers.LinuxResources{CPUShares: 100, PercentTicks: 0.02}}}))
}

func TestTail(t *testing.T) {
	k := &tail{limit: 4}
	for _, w := range []string{"ab", "cde", "", "fghijkl"} {
		n, err := k.Write([]byte(w))
		must.NoError(t, err)
		must.Eq(t, len(w), n)
	}
	must.Eq(t, "ijkl", string(k.Bytes()))
}

// TestStatsOfAnEndedTask: an agent asks for statistics for ever unless it is told that
// they will not come (task-driver TS-1).
func TestStatsOfAnEndedTask(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	id, _ := b.start(cfg)
	b.engine.end(id, 0, false)
	b.wait(cfg.ID)
	_, err := b.driver.TaskStats(t.Context(), cfg.ID, time.Second)
	must.EqError(t, err, "container stopped")
	var mark *structs.RecoverableError
	must.True(t, errors.As(err, &mark))
	must.False(t, mark.IsRecoverable())
}
