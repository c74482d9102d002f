// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"strconv"

	"github.com/gpu-docker/gpu-docker/compat"
)

// checkCount holds the task option gpu.count against the reservation: an agent
// may start a task without its devices after a restart (cases DRV-05). Shares of one
// GPU are one GPU.
func checkCount(want *int, g *grant) error {
	got := len(g.Devices)
	if want == nil || *want == got {
		return nil
	}
	noun := "GPUs"
	if *want == 1 {
		noun = "GPU"
	}
	if len(g.IDs) == *want {
		return gpuTrouble("requested %d %s, got %d: the reservation has %d shares, and shares of one GPU count once; set gpu.count to the number of GPUs, or leave it out where GPUs are shared",
			*want, noun, got, len(g.IDs))
	}
	return gpuTrouble("requested %d %s, got %d; check that the device block's count equals gpu.count", *want, noun, got)
}

// compatHost tells compat what the task would run on.
func (g *grant) compatHost() compat.Host {
	h := compat.Host{Driver: g.Driver.Version, CUDA: g.Driver.ReportedCUDA()}
	for _, d := range g.Devices {
		gpu := compat.GPU{ID: d.UUID}
		if cc := d.GPU.ComputeCapability; cc != nil {
			gpu.Arch = cc.String()
		}
		if d.GPU.Brand != nil {
			gpu.Brand = *d.GPU.Brand
		}
		h.GPUs = append(h.GPUs, gpu)
	}
	return h
}

// numbers tell the task what it really got (cases DRV-31): GPU_MEMORY_TOTAL_MIB is
// absent when one of the GPUs does not tell its memory.
func (g *grant) numbers() map[string]string {
	env := map[string]string{"GPU_COUNT": strconv.Itoa(len(g.Devices))}
	var total uint64
	for _, d := range g.Devices {
		bytes := d.memoryBytes()
		if bytes == nil {
			return env
		}
		total += *bytes
	}
	env["GPU_MEMORY_TOTAL_MIB"] = strconv.FormatUint(total>>20, 10)
	return env
}

// memoryBytes is the memory of a GPU or MIG device; nil when it does not tell.
func (d *grantedDevice) memoryBytes() *uint64 {
	for _, m := range d.GPU.MIGDevices {
		if m.UUID == d.UUID {
			return m.TotalBytes
		}
	}
	return d.GPU.TotalBytes
}
