// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// busy are readings of a host on whose first GPU processes compute.
func busy(pids ...int) gpuhost.Readings {
	used := uint64(3 << 20)
	reading := gpuhost.Reading{UUID: "GPU-a"}
	for _, pid := range pids {
		reading.Processes = append(reading.Processes, gpuhost.Process{PID: pid, MemoryUsedBytes: &used})
	}
	return gpuhost.Readings{GPUs: []gpuhost.Reading{reading}}
}

// TestForeignProcesses: a task is told what computes on its GPU already, and that stays
// known when another process takes the task up again (cases DRV-28).
func TestForeignProcesses(t *testing.T) {
	b := newBench(t, nil)
	readings := busy(20, 7)
	readings.GPUs[0].Processes[0].MemoryUsedBytes = nil
	b.host.change(func(h *fakeHost) { h.readings = readings })
	events := b.driver.events.Subscribe(t.Context())
	b.start(b.task(nil, "GPU-b"))
	_, h := b.start(b.task(nil, "GPU-a"))
	must.Eq(t, "GPU GPU-a is in use by processes that are not this task's: pid 7 (3 MiB), pid 20", (<-events).Message)
	state, err := decodeHandle(h)
	must.NoError(t, err)
	must.Eq(t, []int{7, 20}, state.Foreign)
}

// TestLeftovers: what a task leaves on its GPU is told, and nothing else is (cases DRV-28).
// Time is simulated.
func TestLeftovers(t *testing.T) {
	const told = "Processes are left on the GPU after the end of the task: GPU GPU-a: pid 9 (3 MiB)"
	for _, tc := range []struct {
		name     string
		ids      []string
		foreign  []int
		pids     []int
		clearAt  time.Duration // when they are gone; 0: never
		takenBy  string        // who has the GPU by then
		want     string
		wantTook time.Duration
	}{
		{name: "they stay", ids: []string{"GPU-a"}, pids: []int{9}, want: told, wantTook: leftoverLimit},
		{name: "they were there before the task", ids: []string{"GPU-a"}, pids: []int{7, 9}, foreign: []int{7, 9}},
		{name: "one was there before the task", ids: []string{"GPU-a"}, pids: []int{7, 9}, foreign: []int{7}, want: told, wantTook: leftoverLimit},
		{name: "they end in time", ids: []string{"GPU-a"}, pids: []int{9}, clearAt: leftoverLimit - 3*leftoverPeriod/2, wantTook: leftoverLimit - leftoverPeriod},
		{name: "the GPU is another task's by then", ids: []string{"GPU-a"}, pids: []int{9}, takenBy: "other"},
		{name: "another GPU", ids: []string{"GPU-b"}, pids: []int{9}},
		{name: "a share: they may be another task's", ids: []string{"GPU-a::1"}, pids: []int{9}},
		{name: "a MIG device: NVML names processes by GPU", ids: []string{"MIG-c"}, pids: []int{9}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
				defer d.cancel()
				p := d.emptyParts(config.DefaultPlugin())
				host := twoGPUs()
				host.readings = busy(tc.pids...)
				p.host = host
				if tc.takenBy != "" {
					d.gpus.Adopt(&drivers.TaskConfig{ID: tc.takenBy}, []string{"GPU-a"})
				}
				if tc.clearAt > 0 {
					time.AfterFunc(tc.clearAt, func() { host.change(func(h *fakeHost) { h.readings = busy() }) })
				}
				events := d.events.Subscribe(t.Context())
				cfg := &drivers.TaskConfig{ID: "x"}
				begun := time.Now()
				d.reportLeftovers(p, newTask(t.Context(), cfg, &taskState{GPUs: tc.ids, Foreign: tc.foreign}))
				must.Eq(t, tc.wantTook, time.Since(begun))
				d.events.Emit(cfg, "end of the test", nil)
				first := (<-events).Message
				if tc.want == "" {
					must.Eq(t, "end of the test", first)
				} else {
					must.Eq(t, tc.want, first)
				}
			})
		})
	}
}
