// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The device attributes of CUDA's driver interface that we ask.
const (
	attributeConstantMemory = 9
	attributeSMs            = 16
	attributeECC            = 32
	attributeMemoryClock    = 36
	attributeBusWidth       = 37
	attributeL2             = 38
	attributeMajor          = 75
	attributeMinor          = 76
	attributeSharedPerSM    = 81
)

// cudaLibrary calls the CUDA driver library by name.
type cudaLibrary struct{ handle uintptr }

// cudaError is a failed CUDA call; a missing function has the code notFound.
type cudaError struct {
	call string
	code uint32
}

const cudaNotFound = 500

func (e *cudaError) Error() string { return fmt.Sprintf("%s: CUDA error %d", e.call, e.code) }

// call calls the first of the names that the library has.
//
//go:uintptrescapes
func (l cudaLibrary) call(names []string, args ...uintptr) error {
	s := lookUp(l.handle, names)
	if s.address == 0 {
		return &cudaError{s.name, cudaNotFound}
	}
	if code, _, _ := purego.SyscallN(s.address, args...); uint32(code) != 0 {
		return &cudaError{s.name, uint32(code)}
	}
	return nil
}

// device describes one device; false when it has no bus id to know it by.
func (l cudaLibrary) device(ordinal int32) (cudaDevice, uintptr, bool) {
	var handle int32
	if err := l.call([]string{"cuDeviceGet"}, uintptr(unsafe.Pointer(&handle)), uintptr(ordinal)); err != nil {
		return cudaDevice{}, 0, false
	}
	device := uintptr(handle)
	buffer := make([]byte, 32)
	if err := l.call([]string{"cuDeviceGetPCIBusId"}, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), device); err != nil {
		return cudaDevice{}, 0, false
	}
	d := cudaDevice{
		BusID:        shortBusID(cText(buffer)),
		SharedPerSM:  l.attribute(device, attributeSharedPerSM),
		Constant:     l.attribute(device, attributeConstantMemory),
		L2:           l.attribute(device, attributeL2),
		MemoryKHz:    l.attribute(device, attributeMemoryClock),
		BusWidthBits: l.attribute(device, attributeBusWidth),
	}
	if ecc := l.attribute(device, attributeECC); ecc != nil {
		on := *ecc != 0
		d.ECC = &on
	}
	var total uint64
	if err := l.call([]string{"cuDeviceTotalMem_v2"}, uintptr(unsafe.Pointer(&total)), device); err == nil {
		d.GlobalBytes = &total
	}
	major, minor := l.attribute(device, attributeMajor), l.attribute(device, attributeMinor)
	if major == nil || minor == nil {
		return cudaDevice{}, 0, false
	}
	d.Major, d.Minor = int(*major), int(*minor)
	if sms := l.attribute(device, attributeSMs); sms != nil {
		d.SMs = *sms
	}
	return d, device, true
}

func (l cudaLibrary) attribute(device uintptr, attribute uintptr) *uint64 {
	var value int32
	if err := l.call([]string{"cuDeviceGetAttribute"}, uintptr(unsafe.Pointer(&value)), attribute, device); err != nil || value < 0 {
		return nil
	}
	number := uint64(value)
	return &number
}

// peers asks of each pair whether the earlier device can access the later one
// (nvidia-docker-v1 GI-6).
func (l cudaLibrary) peers(devices []cudaDevice, handles []uintptr) {
	for i := range devices {
		for j := i + 1; j < len(devices); j++ {
			var can int32
			err := l.call([]string{"cuDeviceCanAccessPeer"}, uintptr(unsafe.Pointer(&can)), handles[i], handles[j])
			if err == nil && can != 0 {
				devices[i].Peers = append(devices[i].Peers, devices[j].BusID)
			}
		}
	}
}
