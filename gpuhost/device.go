// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"time"
)

// Inventory is what a host has, at one moment. It is read-only once returned.
type Inventory struct {
	// Time is when it was taken; zero while the driver has not answered yet.
	Time   time.Time
	Driver Driver
	// GPUs are in NVML order (PCI bus order), which is not the order of minors.
	GPUs []GPU
	// Reason tells in one line why there is no driver or no GPU; empty when
	// the driver answers, even if single GPUs are unhealthy.
	Reason string
	// Skipped tells, a line each, which GPUs NVML counts but cannot be used at
	// all because they have no UUID, minor number or bus id (defect D7 of v1).
	Skipped []string
}

// Driver is the NVIDIA driver of a host.
type Driver struct {
	// Version as the driver gives it, "535.104.05"; empty without a driver.
	Version string
	// CUDA is the newest CUDA version the driver supports (NVML, else the table
	// by driver branch); zero when neither tells.
	CUDA CUDAVersion
	// CUDAFromTable: the driver did not report CUDA.
	CUDAFromTable bool
	// KernelVersion is the loaded kernel module's version from
	// /proc/driver/nvidia/version; empty when unreadable.
	KernelVersion string
	// NVMLVersion is the version of the NVML library; empty when unreadable.
	NVMLVersion string
	// Library is the path of the NVML library in use; empty without one.
	Library string
	// VersionErr tells why the version query failed, in NVML's words
	// ("nvml: Driver Not Loaded"); Version is empty then. Nil when it answered.
	VersionErr error
	// CUDAErr tells why the driver did not tell its CUDA version itself; CUDA
	// may still hold the table's. Nil when it answered or has no such query.
	CUDAErr error
}

// ReportedCUDA is the newest CUDA version that the driver itself says it supports;
// empty where it says none and CUDA is from the table or unknown.
func (d *Driver) ReportedCUDA() string {
	if d.CUDAFromTable {
		return ""
	}
	return d.CUDA.String()
}

// CUDAVersion is a CUDA release; the zero value means unknown.
type CUDAVersion struct{ Major, Minor int }

// IsZero says whether the version is unknown.
func (v CUDAVersion) IsZero() bool { return v == CUDAVersion{} }

// String gives "12.2"; empty when unknown.
func (v CUDAVersion) String() string {
	if v.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// ComputeCapability is a GPU's architecture number.
type ComputeCapability struct{ Major, Minor int }

// String gives "8.0".
func (c ComputeCapability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// GPU holds the slowly changing facts about one GPU.
type GPU struct {
	// Index counts as NVML does, including GPUs that were skipped.
	Index int
	UUID  string
	// PCIBusID is the legacy form, "0000:0A:00.0": 4-digit domain, upper case.
	PCIBusID string
	// Minor is N of /dev/nvidiaN.
	Minor int

	Model             *string
	Brand             *string // as NVML's enum names it in lower case, "tesla", "geforce"
	Architecture      *string // "Kepler" … "Blackwell"
	ComputeCapability *ComputeCapability
	Cores             *uint64 // CUDA cores
	NUMANode          *int    // nil when sysfs does not tell

	PowerLimitMilliwatts *uint64
	MaxSMClockMHz        *uint64
	MaxMemoryClockMHz    *uint64
	BAR1TotalBytes       *uint64
	PCIeMaxGeneration    *uint64
	PCIeMaxWidth         *uint64
	PCIeBandwidthMBps    *uint64 // from generation and width
	DisplayActive        *bool
	PersistenceMode      *bool
	ECCEnabled           *bool

	// Memory facts. TotalBytes is NVML's; GlobalBytes CUDA's, the part that
	// programs can use, and falls back to TotalBytes without libcuda.
	TotalBytes          *uint64
	GlobalBytes         *uint64
	SharedPerSMBytes    *uint64
	ConstantBytes       *uint64
	L2Bytes             *uint64
	MemoryBandwidthMBps *uint64
	// UnifiedMemory: the GPU has no memory of its own and TotalBytes is the host's.
	UnifiedMemory bool

	// Peers are the GPUs that CUDA can access from this one, by ascending index.
	Peers []Peer

	// MIGEnabled: the GPU is in MIG mode and only its MIG devices are usable.
	MIGEnabled bool
	MIGDevices []MIGDevice

	// Unhealthy tells in one line why the GPU must not be used; empty if healthy.
	Unhealthy string
}

// Path gives the device node inside a container, "/dev/nvidia3".
func (g *GPU) Path() string { return fmt.Sprintf("/dev/nvidia%d", g.Minor) }

// Peer is another GPU of the host and the way to it.
type Peer struct {
	PCIBusID string
	Link     Link
}

// Link is the PCI path between two GPUs, numbered as nvidia-docker v1 did
// (nvidia-docker-v1 GI-6): 0 unknown … 6 same board.
type Link int

// MIGDevice is one MIG compute instance of a GPU.
type MIGDevice struct {
	UUID              string
	Profile           string // "1g.5gb"
	GPUInstanceID     int
	ComputeInstanceID int
	TotalBytes        *uint64
}

// DeviceNode is a device file and where a container finds it.
type DeviceNode struct {
	HostPath      string // under the driver root's /dev if the nodes are there
	ContainerPath string // always below /dev
}
