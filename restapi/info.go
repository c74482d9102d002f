// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Info is the answer of gpu/info: the host's static facts in the units of the
// wire (nvidia-docker-v1 §3, §4). The order of the fields is that of the JSON.
type Info struct {
	Version Versions
	Devices []InfoDevice
}

// Versions are those of the driver and of the CUDA it supports.
type Versions struct {
	Driver string
	CUDA   *string // nil when nothing tells it
}

// InfoDevice is one GPU in gpu/info. Nil is what the card does not tell.
type InfoDevice struct {
	index int

	UUID        string
	Path        string
	Model       *string
	Power       *uint64 // W, the limit
	CPUAffinity int     // NUMA node, 0 when unknown
	PCI         InfoPCI
	Clocks      Clocks // MHz, the maxima
	Topology    []InfoLink
	Family      *string
	Arch        *string
	Cores       *uint64
	Memory      InfoMemory
}

// InfoPCI is a GPU's place on the bus.
type InfoPCI struct {
	BusID     string
	BAR1      *uint64 // MiB
	Bandwidth *uint64 // MB/s
}

// Clocks are in MHz.
type Clocks struct {
	Cores  *uint64
	Memory *uint64
}

// InfoLink is the way to a peer GPU.
type InfoLink struct {
	BusID string
	Link  gpuhost.Link
}

// InfoMemory describes a GPU's memories.
type InfoMemory struct {
	ECC       *bool
	Global    *uint64 // MiB
	Shared    *uint64 // KiB a multiprocessor
	Constant  *uint64 // KiB
	L2Cache   *uint64 // KiB
	Bandwidth *uint64 // MB/s
}

// NewInfo makes the answer from an inventory. It fails when the driver's
// version or its CUDA version cannot be read.
func NewInfo(inv *gpuhost.Inventory) (*Info, error) {
	version, err := DriverVersion(inv)
	if err != nil {
		return nil, err
	}
	if err := inv.Driver.CUDAErr; err != nil {
		return nil, fmt.Errorf("CUDA version of the driver: %w", err)
	}
	info := &Info{Version: Versions{Driver: version}, Devices: []InfoDevice{}}
	if cuda := inv.Driver.CUDA; !cuda.IsZero() {
		s := cuda.String()
		info.Version.CUDA = &s
	}
	for i := range inv.GPUs {
		info.Devices = append(info.Devices, infoDevice(&inv.GPUs[i]))
	}
	return info, nil
}

// DriverVersion is the loaded driver's; the error is the query's own, or the
// inventory's reason.
func DriverVersion(inv *gpuhost.Inventory) (string, error) {
	switch {
	case inv.Driver.VersionErr != nil:
		return "", inv.Driver.VersionErr
	case inv.Driver.Version == "":
		return "", &noDriverError{reason: inv.Reason}
	}
	return inv.Driver.Version, nil
}

// noDriverError says that the host has no NVIDIA driver, and why.
type noDriverError struct{ reason string }

func (e *noDriverError) Error() string {
	if e.reason == "" {
		return "no NVIDIA driver on this host"
	}
	return e.reason
}

func infoDevice(g *gpuhost.GPU) InfoDevice {
	d := InfoDevice{
		index:  g.Index,
		UUID:   g.UUID,
		Path:   g.Path(),
		Model:  g.Model,
		Power:  scaled(g.PowerLimitMilliwatts, kilo),
		PCI:    InfoPCI{BusID: g.PCIBusID, BAR1: scaled(g.BAR1TotalBytes, mebi), Bandwidth: g.PCIeBandwidthMBps},
		Clocks: Clocks{Cores: g.MaxSMClockMHz, Memory: g.MaxMemoryClockMHz},
		Family: g.Architecture,
		Cores:  g.Cores,
		Memory: infoMemory(g),
	}
	if g.NUMANode != nil && *g.NUMANode > 0 {
		d.CPUAffinity = *g.NUMANode
	}
	if cc := g.ComputeCapability; cc != nil {
		arch := cc.String()
		d.Arch = &arch
	}
	for _, p := range g.Peers {
		d.Topology = append(d.Topology, InfoLink{BusID: p.PCIBusID, Link: p.Link})
	}
	return d
}

func infoMemory(g *gpuhost.GPU) InfoMemory {
	return InfoMemory{
		ECC:       g.ECCEnabled,
		Global:    scaled(globalBytes(g), mebi),
		Shared:    scaled(g.SharedPerSMBytes, kibi),
		Constant:  scaled(g.ConstantBytes, kibi),
		L2Cache:   scaled(g.L2Bytes, kibi),
		Bandwidth: g.MemoryBandwidthMBps,
	}
}

// globalBytes is the memory that programs can use: CUDA's number, else NVML's.
func globalBytes(g *gpuhost.GPU) *uint64 {
	if g.GlobalBytes != nil {
		return g.GlobalBytes
	}
	return g.TotalBytes
}
