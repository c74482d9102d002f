// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import "time"

// Readings is one sample of all GPUs of a host, shared by all readers.
type Readings struct {
	// Time is when the sample was finished; zero before the first one.
	Time time.Time
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

	// Processes that compute on the GPU; nil when the card does not tell,
	// empty when there is none. Processes that ended meanwhile are left out.
	Processes []Process
}

// Process is one compute process on a GPU.
type Process struct {
	PID             int
	Name            string
	MemoryUsedBytes *uint64
}
