// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"sync"
	"time"
)

// survey is the outcome of one look at the host.
type survey struct {
	inventory *Inventory
	places    map[string]*place // where NVML has each GPU, by UUID
	session   *session
}

// place is where a GPU is found for readings.
type place struct {
	slot *gpuSlot
	gpu  *GPU
	migs []migFound
}

// renewInventory looks at the host. Only one runs at a time, and none while a
// sample is taken.
func (h *Host) renewInventory() *Inventory {
	h.work.Lock()
	defer h.work.Unlock()
	return h.look().inventory
}

// look surveys the host; h.work is held.
func (h *Host) look() *survey {
	result := &survey{places: make(map[string]*place)}
	var onBus []string
	err := h.attend()
	if err == nil {
		onBus, err = h.recount()
	}
	if err != nil {
		result.inventory = h.without(err)
	} else {
		result.session = h.session
		result.inventory = h.take(result, onBus)
		h.attendEvents(h.session)
	}
	result.inventory.Time = time.Now()
	h.survey = result
	h.tellReason(result.inventory)
	return result
}

// take examines every GPU of the session, each on its own lane.
func (h *Host) take(result *survey, onBus []string) *Inventory {
	s := h.session
	unknown := h.identifySlots(s)
	h.identifyLost(s, unknown)
	examined := make([]examination, len(s.slots))
	var group sync.WaitGroup
	for i, slot := range s.slots {
		if unknown[i] == nil {
			group.Go(func() { examined[i] = h.examine(s, slot) })
		}
	}
	group.Wait()
	for i, slot := range s.slots {
		if unknown[i] != nil {
			examined[i] = h.unidentified(s, slot, unknown[i])
		}
	}

	inventory := &Inventory{Driver: s.driver}
	var migs [][]migFound
	for _, e := range examined {
		if e.skipped != "" {
			inventory.Skipped = append(inventory.Skipped, e.skipped)
			continue
		}
		inventory.GPUs = append(inventory.GPUs, e.gpu)
		migs = append(migs, e.migs)
	}
	h.addCUDA(inventory)
	h.addPeers(inventory)
	for i := range inventory.GPUs {
		gpu := &inventory.GPUs[i]
		result.places[gpu.UUID] = &place{slot: s.slots[gpu.Index], gpu: gpu, migs: migs[i]}
		h.known[gpu.PCIBusID] = *gpu
	}
	h.addInvisible(inventory, onBus)
	h.tellSkipped(inventory)
	if len(inventory.GPUs) == 0 {
		inventory.Reason = h.noGPU(inventory)
	}
	return inventory
}

// noGPU says why a driver that answers has no GPU to offer.
func (h *Host) noGPU(inventory *Inventory) string {
	if text := h.unsupported(); text != "" {
		return text
	}
	if len(inventory.Skipped) > 0 {
		return inventory.Skipped[0]
	}
	return h.root.blamed(fmt.Sprintf("driver %s finds no GPU", orUnknown(inventory.Driver.Version)), "check with \"lspci -d 10de:\" that one is there")
}

// addInvisible lists GPUs that NVML has lost without a word: the PCI bus still
// has them (cases DEV-17). One that was never seen has no UUID to be listed under.
func (h *Host) addInvisible(inventory *Inventory, onBus []string) {
	if len(onBus) <= len(h.session.slots) {
		return
	}
	for _, busID := range onBus {
		if indexOfBus(inventory, busID) >= 0 {
			continue
		}
		problem := "not visible to NVML at " + busID + "; see the kernel log"
		known, seen := h.known[busID]
		if !seen {
			inventory.Skipped = append(inventory.Skipped, "GPU "+problem)
			continue
		}
		known.Unhealthy = h.judge(known.UUID, problem)
		known.Peers = nil
		inventory.GPUs = append(inventory.GPUs, known)
	}
}
