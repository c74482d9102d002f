// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"
)

// cudaProbeVariable makes a process of ours a CUDA probe; its value is the path
// of the CUDA driver library.
const cudaProbeVariable = "GPU_DOCKER_CUDA_PROBE"

// cudaProbeReady says that this program called CUDAProbeMain, so that starting
// it again gives a probe and not a second program.
var cudaProbeReady atomic.Bool

// CUDAProbeMain must be called first in main. In a process that was started as a
// CUDA probe it does that work and ends the process; otherwise it returns at
// once. CUDA is asked in a process of its own because a crash or hang of its
// library must cost nothing, and because a plugin must not hold the GPUs open.
// A program that does not call it gets the facts that NVML and tables tell.
func CUDAProbeMain() {
	library, isProbe := os.LookupEnv(cudaProbeVariable)
	if !isProbe {
		cudaProbeReady.Store(true)
		return
	}
	report, err := probeCUDA(library)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// cudaReport is what a probe found out.
type cudaReport struct {
	DriverVersion int          `json:"driver_version"` // 12020 is 12.2
	Devices       []cudaDevice `json:"devices"`
	// VersionProblem is why there is no driver version.
	VersionProblem string `json:"version_problem,omitempty"`
	// Problem is why there are no devices though the library answers.
	Problem string `json:"problem,omitempty"`
}

// cudaDevice is one device as CUDA describes it. Sizes are in bytes; a nil
// value is one that CUDA does not tell.
type cudaDevice struct {
	BusID        string   `json:"bus_id"`
	Major        int      `json:"major"`
	Minor        int      `json:"minor"`
	SMs          uint64   `json:"sms"`
	GlobalBytes  *uint64  `json:"global_bytes"`
	SharedPerSM  *uint64  `json:"shared_per_sm_bytes"`
	Constant     *uint64  `json:"constant_bytes"`
	L2           *uint64  `json:"l2_bytes"`
	MemoryKHz    *uint64  `json:"memory_khz"`
	BusWidthBits *uint64  `json:"bus_width_bits"`
	ECC          *bool    `json:"ecc"`
	Peers        []string `json:"peers"` // bus ids of later devices it can access
}

// probeCUDA asks a CUDA driver library everything. Without usable devices the
// report still has the driver version, which takes no GPU to ask.
func probeCUDA(path string) (*cudaReport, error) {
	if _, err := readELF(path); err != nil {
		return nil, err
	}
	handle, err := openLibrary(path)
	if err != nil {
		return nil, err
	}
	l := cudaLibrary{handle}
	var report cudaReport
	var version int32
	if err := l.call([]string{"cuDriverGetVersion"}, uintptr(unsafe.Pointer(&version))); err != nil {
		report.VersionProblem = err.Error()
	} else {
		report.DriverVersion = int(version)
	}
	if err := l.call([]string{"cuInit"}, 0); err != nil {
		report.Problem = err.Error()
		return &report, nil
	}
	var count int32
	if err := l.call([]string{"cuDeviceGetCount"}, uintptr(unsafe.Pointer(&count))); err != nil {
		report.Problem = err.Error()
		return &report, nil
	}
	var handles []uintptr
	for i := range count {
		if device, handle, ok := l.device(i); ok {
			report.Devices, handles = append(report.Devices, device), append(handles, handle)
		}
	}
	l.peers(report.Devices, handles)
	return &report, nil
}
