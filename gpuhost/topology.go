// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"slices"
	"unsafe"
)

// The links between two GPUs, as nvidia-docker v1 numbered them
// (nvidia-docker-v1 GI-6). NVLink does not show: linked GPUs have their PCI path.
const (
	LinkUnknown Link = iota
	LinkCrossCPU
	LinkSameCPU
	LinkHostBridge
	LinkMultipleSwitches
	LinkSingleSwitch
	LinkSameBoard
)

// linkByLevel translates NVML's common ancestor of two GPUs.
var linkByLevel = map[uint32]Link{
	50: LinkCrossCPU, 40: LinkSameCPU, 30: LinkHostBridge,
	20: LinkMultipleSwitches, 10: LinkSingleSwitch, 0: LinkSameBoard,
}

// addPeers completes which GPUs can access each other, and by which link.
func (h *Host) addPeers(inventory *Inventory) {
	if h.cuda.report == nil || !cudaProbeReady.Load() {
		return
	}
	for _, device := range h.cuda.report.Devices {
		for _, other := range device.Peers {
			h.addPair(inventory, device.BusID, other)
		}
	}
	for i := range inventory.GPUs {
		slices.SortFunc(inventory.GPUs[i].Peers, func(a, b Peer) int {
			return indexOfBus(inventory, a.PCIBusID) - indexOfBus(inventory, b.PCIBusID)
		})
	}
}

func (h *Host) addPair(inventory *Inventory, busA, busB string) {
	a, b := indexOfBus(inventory, busA), indexOfBus(inventory, busB)
	if a < 0 || b < 0 {
		return
	}
	gpuA, gpuB := &inventory.GPUs[a], &inventory.GPUs[b]
	link := h.link(gpuA, gpuB)
	gpuA.Peers = append(gpuA.Peers, Peer{PCIBusID: gpuB.PCIBusID, Link: link})
	gpuB.Peers = append(gpuB.Peers, Peer{PCIBusID: gpuA.PCIBusID, Link: link})
}

func indexOfBus(inventory *Inventory, busID string) int {
	return slices.IndexFunc(inventory.GPUs, func(g GPU) bool { return g.PCIBusID == busID && busID != "" })
}

// link asks NVML for the way between two GPUs, once a session.
func (h *Host) link(a, b *GPU) Link {
	s := h.session
	key := [2]string{a.PCIBusID, b.PCIBusID}
	if link, known := s.links[key]; known {
		return link
	}
	first, second := s.slots[a.Index].handle, s.slots[b.Index].handle
	if first == 0 || second == 0 {
		return LinkUnknown
	}
	link, err := onLane(s.slots[a.Index].lane, s.nvml, func(c *caller) (Link, error) {
		var level uint32
		if err := c.call(fnCommonAncestor, first, second, uintptr(unsafe.Pointer(&level))); err != nil {
			return LinkUnknown, err
		}
		return linkByLevel[level], nil
	})
	if err != nil && !notTold(err) {
		return LinkUnknown
	}
	if s.links == nil {
		s.links = make(map[[2]string]Link)
	}
	s.links[key] = link
	return link
}
