// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import "time"

// Readings is one sample of all GPUs of a host, shared by all readers.
type Readings struct {
	// Time is when the sample was finished; zero before the first one.
	Time time.Time
	// Took is how long NVML needed for it, without the look at the host that it
	// may have waited for.
	Took time.Duration
	// Inventory is the one that the sample belongs to; nil before the first.
	Inventory *Inventory
	// GPUs has one entry for each GPU of the inventory, in its order.
	GPUs []Reading
}

// Reading is the live state of one GPU. A nil counter is one that the card does
// not tell. When Err is set the GPU could not be read at all (lost, reset
// required, a failing or hanging query) and every counter is nil.
type Reading struct {
	UUID string
	Err  error

	PowerMilliwatts    *uint64
	TemperatureCelsius *uint64
	GPUPercent         *uint64
	MemoryPercent      *uint64
	EncoderPercent     *uint64
	DecoderPercent     *uint64
	MemoryUsedBytes    *uint64
	MemoryTotalBytes   *uint64
	BAR1UsedBytes      *uint64
	SMClockMHz         *uint64
	MemoryClockMHz     *uint64
	PCIeRxKBps         *uint64
	PCIeTxKBps         *uint64
	ECCL1Errors        *uint64 // uncorrected, since driver load
	ECCL2Errors        *uint64
	ECCDeviceErrors    *uint64

	MemoryTemperatureCelsius *uint64
	FanPercent               *uint64 // of the maximum; beyond 100 is possible
	EnergyMillijoules        *uint64 // since driver load
	ThrottleReasons          *uint64 // NVML's bits; ThrottleNames names them
	NVLinkRxKBps             *uint64 // of all links together; nil in the first sample
	NVLinkTxKBps             *uint64
	RetiredPagesSingleBit    *uint64
	RetiredPagesDoubleBit    *uint64
	RetiredPagesPending      *bool
	RemappedRowsCorrected    *uint64
	RemappedRowsUncorrected  *uint64
	RemappedRowsPending      *bool
	RemappedRowsFailed       *bool

	// Processes that compute on the GPU; nil when the card does not tell,
	// empty when there is none. Processes that ended meanwhile are left out.
	Processes []Process

	// MIG has one entry for each MIG device of the GPU, in the inventory's order.
	MIG []MIGReading
}

// MIGReading is the live state of one MIG device.
type MIGReading struct {
	UUID             string
	MemoryUsedBytes  *uint64
	MemoryTotalBytes *uint64
}

// Process is one compute process on a GPU.
type Process struct {
	PID             int
	Name            string // empty when the driver does not tell it
	MemoryUsedBytes *uint64
}
