// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// gpuLabels identify a GPU in every metric about it.
var gpuLabels = []string{"uuid", "index", "model"}

// gpuMetric is a number about one GPU, absent when the card does not tell it.
type gpuMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*gpuhost.GPU, *gpuhost.Reading) *float64
}

// gpuGauges are the numbers about a GPU that need no more labels, in base units.
var gpuGauges = []gpuMetric{
	live("gpu_power_watts", "Power draw.", 1e-3, func(r *gpuhost.Reading) *uint64 { return r.PowerMilliwatts }),
	fact("gpu_power_limit_watts", "Power management limit.", 1e-3, func(g *gpuhost.GPU) *uint64 { return g.PowerLimitMilliwatts }),
	live("gpu_temperature_celsius", "Temperature of the GPU.", 1, func(r *gpuhost.Reading) *uint64 { return r.TemperatureCelsius }),
	live("gpu_memory_temperature_celsius", "Temperature of the memory.", 1, func(r *gpuhost.Reading) *uint64 { return r.MemoryTemperatureCelsius }),
	live("gpu_fan_ratio", "Fan speed as part of the maximum.", 1e-2, func(r *gpuhost.Reading) *uint64 { return r.FanPercent }),
	live("gpu_utilization_ratio", "Part of the time in which a kernel ran.", 1e-2, func(r *gpuhost.Reading) *uint64 { return r.GPUPercent }),
	live("gpu_memory_utilization_ratio", "Part of the time in which memory was read or written.", 1e-2, func(r *gpuhost.Reading) *uint64 { return r.MemoryPercent }),
	live("gpu_encoder_utilization_ratio", "Utilisation of the video encoder.", 1e-2, func(r *gpuhost.Reading) *uint64 { return r.EncoderPercent }),
	live("gpu_decoder_utilization_ratio", "Utilisation of the video decoder.", 1e-2, func(r *gpuhost.Reading) *uint64 { return r.DecoderPercent }),
	live("gpu_memory_used_bytes", "Memory in use.", 1, func(r *gpuhost.Reading) *uint64 { return r.MemoryUsedBytes }),
	fact("gpu_memory_total_bytes", "Memory of the GPU.", 1, func(g *gpuhost.GPU) *uint64 { return g.TotalBytes }),
	live("gpu_bar1_used_bytes", "BAR1 window in use.", 1, func(r *gpuhost.Reading) *uint64 { return r.BAR1UsedBytes }),
	fact("gpu_bar1_total_bytes", "BAR1 window.", 1, func(g *gpuhost.GPU) *uint64 { return g.BAR1TotalBytes }),
	live("gpu_sm_clock_hertz", "Clock of the multiprocessors.", 1e6, func(r *gpuhost.Reading) *uint64 { return r.SMClockMHz }),
	live("gpu_memory_clock_hertz", "Clock of the memory.", 1e6, func(r *gpuhost.Reading) *uint64 { return r.MemoryClockMHz }),
	live("gpu_pcie_receive_bytes_per_second", "PCIe traffic to the GPU.", 1e3, func(r *gpuhost.Reading) *uint64 { return r.PCIeRxKBps }),
	live("gpu_pcie_transmit_bytes_per_second", "PCIe traffic from the GPU.", 1e3, func(r *gpuhost.Reading) *uint64 { return r.PCIeTxKBps }),
	live("gpu_nvlink_receive_bytes_per_second", "NVLink traffic to the GPU, all links.", 1e3, func(r *gpuhost.Reading) *uint64 { return r.NVLinkRxKBps }),
	live("gpu_nvlink_transmit_bytes_per_second", "NVLink traffic from the GPU, all links.", 1e3, func(r *gpuhost.Reading) *uint64 { return r.NVLinkTxKBps }),
	counted(live("gpu_energy_joules_total", "Energy used since the driver was loaded.", 1e-3, func(r *gpuhost.Reading) *uint64 { return r.EnergyMillijoules })),
	flag("gpu_retired_pages_pending", "Whether memory pages wait for a reboot to be retired.", func(r *gpuhost.Reading) *bool { return r.RetiredPagesPending }),
	flag("gpu_row_remap_pending", "Whether memory rows wait for a reset to be remapped.", func(r *gpuhost.Reading) *bool { return r.RemappedRowsPending }),
	flag("gpu_row_remap_failed", "Whether remapping of a memory row failed.", func(r *gpuhost.Reading) *bool { return r.RemappedRowsFailed }),
}

// The metrics with labels of their own.
var (
	descGPUs         = desc("gpu_devices", "GPUs of this host.")
	descDriver       = desc("gpu_driver_info", "The loaded NVIDIA driver and the newest CUDA it supports.", "driver_version", "cuda_version")
	descGPU          = desc("gpu_info", "What a GPU is.", append(gpuLabels, "pci_bus_id", "minor", "architecture", "brand")...)
	descHealthy      = desc("gpu_healthy", "Whether the GPU may be used.", gpuLabels...)
	descSampleAge    = desc("gpu_sample_age_seconds", "Age of the sample behind the readings.")
	descECC          = desc("gpu_ecc_uncorrected_errors_total", "Uncorrected memory errors since the driver was loaded.", append(gpuLabels, "location")...)
	descRetiredPages = desc("gpu_retired_pages", "Memory pages taken out of use.", append(gpuLabels, "cause")...)
	descRemappedRows = desc("gpu_remapped_rows", "Memory rows replaced by spare ones.", append(gpuLabels, "cause")...)
	descThrottle     = desc("gpu_throttled", "Why the clocks are held down; absent when they are not.", append(gpuLabels, "reason")...)
	descProcesses    = desc("gpu_processes", "Compute processes on the GPU.", gpuLabels...)
	descMIG          = desc("gpu_mig_info", "A MIG device and the GPU it is part of.", "uuid", "parent_uuid", "profile")
	descMIGTotal     = desc("gpu_mig_memory_total_bytes", "Memory of a MIG device.", "uuid", "parent_uuid")
	descMIGUsed      = desc("gpu_mig_memory_used_bytes", "Memory of a MIG device in use.", "uuid", "parent_uuid")
	descXID          = desc("gpu_xid_total", "XID events since this process started.", "uuid", "xid")
	descAllocation   = desc("gpu_allocation_info", "A task that holds a GPU, a MIG device or a share of a GPU.",
		"uuid", "parent_uuid", "replica", "namespace", "job", "group", "task", "alloc_id", "container")
	descProcessMemory = desc("gpu_process_memory_bytes", "GPU memory of a task's processes; with empty labels that of processes outside tasks.",
		"uuid", "alloc_id", "task")
	descVolume     = desc("gpu_docker_volume_loaded", "A driver volume; 1 when it is that of the loaded driver.", "name")
	descGPUSeconds = desc("gpu_docker_gpu_seconds_total", "Time that tasks held GPUs, MIG devices and shares, each counted, since this process started.", "namespace")
	descEnergy     = desc("gpu_docker_energy_joules_total", "Energy of ended tasks that held whole GPUs.", "namespace")
	descEnded      = desc("gpu_docker_gpu_tasks_ended_total", "GPU tasks that ended since this process started.", "namespace")
	descRefusals   = desc("gpu_docker_refusals_total", "Tasks refused because their image does not fit the driver.")
)

var otherMetrics = []*prometheus.Desc{
	descGPUs, descDriver, descGPU, descHealthy, descSampleAge, descECC, descRetiredPages, descRemappedRows, descThrottle, descProcesses,
	descMIG, descMIGTotal, descMIGUsed, descXID, descAllocation, descProcessMemory, descVolume, descRefusals,
	descGPUSeconds, descEnergy, descEnded,
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// live is a reading, scaled to its base unit.
func live(name, help string, scale float64, read func(*gpuhost.Reading) *uint64) gpuMetric {
	return gpuMetric{desc(name, help, gpuLabels...), prometheus.GaugeValue, func(_ *gpuhost.GPU, r *gpuhost.Reading) *float64 {
		return times(read(r), scale)
	}}
}

// fact is a number of the inventory, scaled to its base unit.
func fact(name, help string, scale float64, read func(*gpuhost.GPU) *uint64) gpuMetric {
	return gpuMetric{desc(name, help, gpuLabels...), prometheus.GaugeValue, func(g *gpuhost.GPU, _ *gpuhost.Reading) *float64 {
		return times(read(g), scale)
	}}
}

func flag(name, help string, read func(*gpuhost.Reading) *bool) gpuMetric {
	return gpuMetric{desc(name, help, gpuLabels...), prometheus.GaugeValue, func(_ *gpuhost.GPU, r *gpuhost.Reading) *float64 {
		b := read(r)
		if b == nil {
			return nil
		}
		v := truth(*b)
		return &v
	}}
}

func counted(m gpuMetric) gpuMetric {
	m.kind = prometheus.CounterValue
	return m
}

func times(v *uint64, scale float64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v) * scale
	if scale < 1 { // dividing gives 26.516 where multiplying gives 26.516000000000002
		f = float64(*v) / (1 / scale)
	}
	return &f
}

// validLabels replaces what is no UTF-8: names of processes, jobs and cards come
// from elsewhere and must not spoil a scrape.
func validLabels(labels []string) []string {
	out := make([]string, len(labels))
	for i, l := range labels {
		out[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return out
}
