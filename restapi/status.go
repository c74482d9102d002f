// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"errors"
	"fmt"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Status is the answer of gpu/status: one sample of all GPUs in the units of
// the wire (nvidia-docker-v1 §3, §5). The order of the fields is that of the JSON.
type Status struct {
	Devices []StatusDevice
}

// StatusDevice is one GPU in gpu/status. Nil is what the card does not tell;
// all is nil when the GPU cannot be read.
type StatusDevice struct {
	index  int
	limits limits

	Power       *uint64 // W
	Temperature *uint64 // °C
	Utilization Utilization
	Memory      StatusMemory
	Clocks      Clocks // MHz, current
	PCI         StatusPCI
	Processes   []StatusProcess
}

// limits are the totals that the text shows beside the readings.
type limits struct {
	power, memory, bar1 *uint64
}

// Utilization is in percent.
type Utilization struct {
	GPU, Memory, Encoder, Decoder *uint64
}

// StatusMemory is a GPU's memory in use and its uncorrected errors.
type StatusMemory struct {
	GlobalUsed *uint64 // MiB
	ECCErrors  ECCErrors
}

// ECCErrors counts uncorrected errors since the driver was loaded.
type ECCErrors struct {
	L1Cache, L2Cache, Global *uint64
}

// StatusPCI is a GPU's traffic on the bus.
type StatusPCI struct {
	BAR1Used   *uint64 // MiB
	Throughput Throughput
}

// Throughput is in MB/s.
type Throughput struct {
	RX, TX *uint64
}

// StatusProcess is one compute process. The driver tells no name of a process that
// this one may not look at.
type StatusProcess struct {
	PID        int
	Name       *string
	MemoryUsed *uint64 // MiB
}

// NewStatus makes the answer from an inventory and a sample. It fails only when
// nothing can be read: no driver, or a failure of every single GPU.
func NewStatus(inv *gpuhost.Inventory, readings *gpuhost.Readings) (*Status, error) {
	if len(inv.GPUs) == 0 {
		if _, err := DriverVersion(inv); err != nil {
			return nil, err
		}
	}
	byUUID := readingsByUUID(readings)
	status := &Status{Devices: []StatusDevice{}}
	var failures []error
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		r := byUUID[g.UUID]
		if r == nil {
			r = &gpuhost.Reading{UUID: g.UUID, Err: errNoReading}
		}
		if r.Err != nil {
			failures = append(failures, fmt.Errorf("GPU %s: %w", g.UUID, r.Err))
		}
		status.Devices = append(status.Devices, statusDevice(g, r))
	}
	if len(failures) > 0 && len(failures) == len(inv.GPUs) {
		return nil, errors.Join(failures...)
	}
	return status, nil
}

// errNoReading is the state of a GPU that is newer than the last sample.
var errNoReading = errors.New("not sampled yet")

func readingsByUUID(readings *gpuhost.Readings) map[string]*gpuhost.Reading {
	m := make(map[string]*gpuhost.Reading, len(readings.GPUs))
	for i := range readings.GPUs {
		m[readings.GPUs[i].UUID] = &readings.GPUs[i]
	}
	return m
}

func statusDevice(g *gpuhost.GPU, r *gpuhost.Reading) StatusDevice {
	return StatusDevice{
		index: g.Index,
		limits: limits{
			power:  scaled(g.PowerLimitMilliwatts, kilo),
			memory: scaled(globalBytes(g), mebi),
			bar1:   scaled(g.BAR1TotalBytes, mebi),
		},
		Power:       scaled(r.PowerMilliwatts, kilo),
		Temperature: r.TemperatureCelsius,
		Utilization: Utilization{GPU: r.GPUPercent, Memory: r.MemoryPercent, Encoder: r.EncoderPercent, Decoder: r.DecoderPercent},
		Memory: StatusMemory{
			GlobalUsed: scaled(r.MemoryUsedBytes, mebi),
			ECCErrors:  ECCErrors{L1Cache: r.ECCL1Errors, L2Cache: r.ECCL2Errors, Global: r.ECCDeviceErrors},
		},
		Clocks: Clocks{Cores: r.SMClockMHz, Memory: r.MemoryClockMHz},
		PCI: StatusPCI{
			BAR1Used:   scaled(r.BAR1UsedBytes, mebi),
			Throughput: Throughput{RX: scaled(r.PCIeRxKBps, kilo), TX: scaled(r.PCIeTxKBps, kilo)},
		},
		Processes: statusProcesses(r.Processes),
	}
}

// statusProcesses is nil, and so null in JSON, when there is none.
func statusProcesses(processes []gpuhost.Process) []StatusProcess {
	var out []StatusProcess
	for _, p := range processes {
		out = append(out, StatusProcess{PID: p.PID, Name: processName(&p), MemoryUsed: scaled(p.MemoryUsedBytes, mebi)})
	}
	return out
}

// processName is nil when the driver does not tell it.
func processName(p *gpuhost.Process) *string {
	if p.Name == "" {
		return nil
	}
	return &p.Name
}
