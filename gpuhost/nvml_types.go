// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// The structures of NVML's C interface that we read, in C layout. A test
// compares each with go-nvml's, which are generated from the header.

type nvmlPCIInfo struct {
	busIDLegacy    [16]byte
	domain         uint32
	bus            uint32
	device         uint32
	pciDeviceID    uint32
	pciSubSystemID uint32
	busID          [32]byte // since version 3; four reserved words before
}

type nvmlMemory struct {
	total uint64
	free  uint64
	used  uint64
}

type nvmlMemoryV2 struct {
	version  uint32
	total    uint64
	reserved uint64
	free     uint64
	used     uint64
}

type nvmlBAR1Memory struct {
	total uint64
	free  uint64
	used  uint64
}

type nvmlUtilization struct {
	gpu    uint32
	memory uint32
}

type nvmlProcessV1 struct {
	pid        uint32
	usedMemory uint64
}

type nvmlProcessV2 struct {
	pid        uint32
	usedMemory uint64
	_          [2]uint32 // the MIG instances that it uses
}

type nvmlFieldValue struct {
	fieldID   uint32
	scopeID   uint32
	timestamp int64 // µs since the epoch
	latency   int64
	valueType uint32
	code      uint32
	value     [8]byte
}

type nvmlEventData struct {
	device    uintptr
	eventType uint64
	eventData uint64
	_         [2]uint32 // MIG instances, since version 2
}

type nvmlFabricInfo struct {
	clusterUUID [16]byte
	status      uint32
	cliqueID    uint32
	state       uint8
	_           [3]byte
}

type nvmlFabricInfoV3 struct {
	version       uint32
	clusterUUID   [16]byte
	status        uint32
	cliqueID      uint32
	state         uint8
	_             [3]byte
	healthMask    uint32
	healthSummary uint8
	_             [3]byte
}

type nvmlTemperature struct {
	version     uint32
	sensor      uint32
	temperature int32
}

type nvmlDeviceAttributes struct {
	multiprocessors       uint32
	sharedCopyEngines     uint32
	sharedDecoders        uint32
	sharedEncoders        uint32
	sharedJPEG            uint32
	sharedOFA             uint32
	gpuInstanceSlices     uint32
	computeInstanceSlices uint32
	memorySizeMB          uint64
}

// structVersion is the word by which NVML knows a structure's size and version.
func structVersion(size uintptr, version uint32) uint32 { return uint32(size) | version<<24 }

// The kinds of value in a field.
const (
	valueDouble = iota
	valueUint
	valueUlong
	valueUlonglong
	valueLonglong
	valueInt
	valueUshort
)

// noValue is what NVML writes for a 64-bit number that it does not know.
const noValue = ^uint64(0)
