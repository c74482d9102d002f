// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gpu-docker/gpu-docker/guard"
)

// identifySlots asks the GPUs of all slots who they are, unless that is known,
// and returns for each slot why that failed.
func (h *Host) identifySlots(s *session) []error {
	failures := make([]error, len(s.slots))
	answers := make([]found, len(s.slots))
	var group sync.WaitGroup
	for i, slot := range s.slots {
		if slot.handle != 0 {
			continue
		}
		group.Go(func() {
			defer guard.Catch(h.log, "identifying a GPU", &failures[i])
			answers[i], failures[i] = onLane(slot.lane, s.nvml, func(c *caller) (found, error) { return find(c, slot.index) })
		})
	}
	group.Wait()
	for i, slot := range s.slots {
		if slot.handle == 0 && failures[i] == nil {
			slot.handle, slot.id = answers[i].handle, answers[i].identity
			h.lastID[i] = slot.id
		}
	}
	return failures
}

// identifyLost finds out who GPUs are that NVML cannot identify and that were not
// seen before, as after a restart: the kernel module still knows them. Both
// count in the order of the PCI bus.
func (h *Host) identifyLost(s *session, failures []error) {
	var lost []int
	here := make(map[string]bool)
	for i, slot := range s.slots {
		if failures[i] == nil {
			here[slot.id.uuid] = true
		} else if _, known := h.lastID[i]; !known && !errors.Is(failures[i], errNoIdentity) {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return
	}
	missing := slices.DeleteFunc(h.root.kernelGPUs(), func(gpu kernelGPU) bool { return here[gpu.uuid] })
	if len(missing) != len(lost) {
		return
	}
	for n, i := range lost {
		h.lastID[i] = missing[n].identity
	}
}

// unidentified is a GPU that does not say who it is: it goes by the identity that
// its index had last, or is left out.
func (h *Host) unidentified(s *session, slot *gpuSlot, err error) examination {
	id, known := h.lastID[slot.index]
	taken := slices.ContainsFunc(s.slots, func(other *gpuSlot) bool { return other.handle != 0 && other.id.uuid == id.uuid })
	if errors.Is(err, errNoIdentity) || !known || taken {
		return examination{skipped: fmt.Sprintf("GPU %d cannot be used: %s", slot.index, err)}
	}
	slot.id = id
	e := examination{gpu: h.gpuAt(slot)}
	if facts, known := h.remembered(s, slot); known {
		e.gpu = filled(e.gpu, facts.gpu)
	}
	e.setMIG(h.lastMIG(slot))
	e.gpu.Unhealthy = h.judge(id.uuid, faultText(err, id.busID))
	return e
}

// gpuAt is a GPU of which only the identity is known yet.
func (h *Host) gpuAt(slot *gpuSlot) GPU {
	return GPU{
		Index: slot.index, UUID: slot.id.uuid, PCIBusID: slot.id.busID, Minor: slot.id.minor,
		NUMANode: h.root.numaNode(slot.id.busID),
	}
}
