// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"slices"
	"strings"
	"time"
)

const (
	// probeLimit is how long a CUDA probe may take; starting CUDA on a machine
	// with many GPUs and no persistence daemon takes many seconds.
	probeLimit = 30 * time.Second
)

// cudaState is what is known of CUDA on this host.
type cudaState struct {
	key    string // driver version and GPUs that the report or probe is about
	report *cudaReport
	probe  *cudaProbe // running; nil when none is
}

// stop ends a running probe and waits for its end.
func (c *cudaState) stop() {
	if c.probe == nil {
		return
	}
	c.probe.cancel()
	<-c.probe.done
	c.probe = nil
}

// cudaFacts gives what CUDA tells about the GPUs of an inventory: asked once for
// each driver version and set of usable GPUs. Nil while it does not tell.
func (h *Host) cudaFacts(inventory *Inventory) *cudaReport {
	if !cudaProbeReady.Load() {
		return nil
	}
	key := cudaKey(inventory)
	if h.cuda.key != key {
		h.cuda.stop()
		report := h.cuda.report
		if before, _, _ := strings.Cut(h.cuda.key, " "); before != inventory.Driver.Version {
			report = nil
		}
		h.cuda = cudaState{key: key, report: report, probe: h.startProbe()}
	}
	if h.cuda.probe != nil {
		h.collectProbe()
	}
	return h.cuda.report
}

func cudaKey(inventory *Inventory) string {
	words := []string{inventory.Driver.Version, inventory.Driver.Library}
	for i := range inventory.GPUs {
		if gpu := &inventory.GPUs[i]; gpu.Unhealthy == "" {
			words = append(words, gpu.UUID)
		}
	}
	return strings.Join(words, " ")
}

// addCUDA completes the CUDA version and what CUDA knows of each GPU. The driver's
// own answers come first, tables last.
func (h *Host) addCUDA(inventory *Inventory) {
	report := h.cudaFacts(inventory)
	if inventory.Driver.CUDA.IsZero() && report != nil {
		inventory.Driver.CUDA, inventory.Driver.CUDAErr = report.version()
	}
	if inventory.Driver.CUDA.IsZero() {
		inventory.Driver.CUDA = cudaByDriver(inventory.Driver.Version)
		inventory.Driver.CUDAFromTable = !inventory.Driver.CUDA.IsZero()
	}
	if report == nil {
		return
	}
	for i := range inventory.GPUs {
		gpu := &inventory.GPUs[i]
		at := slices.IndexFunc(report.Devices, func(d cudaDevice) bool { return d.BusID == gpu.PCIBusID })
		if at >= 0 {
			addCUDADevice(gpu, &report.Devices[at])
		}
	}
}

// version is the newest CUDA version of the driver, or why CUDA does not tell.
func (r *cudaReport) version() (CUDAVersion, error) {
	if r.VersionProblem != "" {
		return CUDAVersion{}, errors.New(r.VersionProblem)
	}
	return cudaVersionOf(r.DriverVersion), nil
}

// addCUDADevice takes over CUDA's facts about a GPU. Of a GPU in MIG mode CUDA
// describes only one slice, whose sizes say nothing about the whole.
func addCUDADevice(gpu *GPU, device *cudaDevice) {
	cc := ComputeCapability{device.Major, device.Minor}
	gpu.ComputeCapability, gpu.Architecture = &cc, architecture(cc)
	if gpu.ECCEnabled == nil {
		gpu.ECCEnabled = device.ECC
	}
	if gpu.MIGEnabled {
		return
	}
	if cores := coresPerSM(cc) * device.SMs; gpu.Cores == nil && cores > 0 {
		gpu.Cores = &cores
	}
	if device.GlobalBytes != nil {
		gpu.GlobalBytes = device.GlobalBytes
	}
	gpu.SharedPerSMBytes, gpu.ConstantBytes, gpu.L2Bytes = device.SharedPerSM, device.Constant, device.L2
	if mbps := memoryBandwidth(device.MemoryKHz, device.BusWidthBits); mbps != nil && *mbps > 0 {
		gpu.MemoryBandwidthMBps = mbps
	}
}
