// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"slices"
)

// without is the inventory of a host whose driver does not answer. Its GPUs are
// listed as unhealthy where the driver fails; they are gone where the driver is.
func (h *Host) without(err error) *Inventory {
	inventory := &Inventory{Reason: err.Error()}
	inventory.Driver.KernelVersion = h.root.kernelVersion()
	if text := h.unsupported(); text != "" {
		inventory.Reason = text
		return inventory
	}
	var none *noSessionError
	if errors.As(err, &none) && none.gone {
		return inventory
	}
	switch {
	case none != nil && none.mismatch && !h.anyListed():
		h.addKernelGPUs(inventory)
		h.tellSkipped(inventory)
	case h.survey != nil:
		inventory.GPUs = slices.Clone(h.survey.inventory.GPUs)
		var hung *HungError
		if errors.As(err, &hung) {
			inventory.Driver = h.survey.inventory.Driver
		}
	}
	for i := range inventory.GPUs {
		inventory.GPUs[i].Unhealthy = inventory.Reason
	}
	return inventory
}

// anyListed says whether NVML has told of a GPU since this host was opened.
func (h *Host) anyListed() bool { return len(h.known) > 0 }

// addKernelGPUs lists the GPUs of which only the kernel module tells, as after a
// restart while the library does not fit it (cases VOL-05). It has no UUID for one
// that nobody has used yet, which so cannot be listed.
func (h *Host) addKernelGPUs(inventory *Inventory) {
	for index, known := range h.root.kernelGPUs() {
		gpu := GPU{
			Index: index, UUID: known.uuid, PCIBusID: known.busID, Minor: known.minor,
			NUMANode: h.root.numaNode(known.busID),
		}
		if known.model != "" {
			gpu.Model = &known.model
		}
		inventory.GPUs = append(inventory.GPUs, gpu)
	}
	for _, busID := range h.root.pciGPUs(driverNVIDIA) {
		if indexOfBus(inventory, busID) < 0 {
			inventory.Skipped = append(inventory.Skipped, "GPU at "+busID+" has no UUID while NVML fails: "+inventory.Reason)
		}
	}
}
