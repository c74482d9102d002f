// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"slices"
	"unsafe"
)

// stamp is what shows that the driver has changed: the loaded kernel module and
// the library file.
type stamp struct {
	kernel  string
	library fileID
}

// session is the life of one initialised NVML library. When the driver is
// unloaded, upgraded or loses sight of a GPU, the session ends and the next
// inventory begins another.
type session struct {
	nvml   *nvml
	stamp  stamp
	driver Driver
	slots  []*gpuSlot
	links  map[[2]string]Link // by the two bus ids; asked once
	events *eventWatch        // nil while nobody wants events
}

// gpuSlot is NVML's place of one GPU.
type gpuSlot struct {
	index  int
	lane   *lane
	handle uintptr // zero until the GPU has said who it is
	id     identity
	vitals vitals  // the last ones of this GPU here
	last   *sample // the last one, for rates and process names; nil before it
}

// vacate forgets the GPU of a slot, but for its identity: another one has its place.
func (s *gpuSlot) vacate() { s.handle, s.vitals, s.last = 0, vitals{}, nil }

// end shuts the session's library down. With a call still hanging in it nothing
// can be done but to leave it alone.
func (h *Host) end(s *session) {
	s.events.stop()
	if h.hostLane.stuck() || s.stuck() || s.events.running() {
		h.log.Warn("an NVML call hangs; the old library stays loaded", "library", s.nvml.path)
		return
	}
	_, err := onLane(h.hostLane, s.nvml, func(c *caller) (struct{}, error) {
		return struct{}{}, c.call(fnShutdown)
	})
	if isFault(err) {
		return
	}
	if err := s.nvml.close(); err != nil {
		h.log.Warn("the NVML library cannot be unloaded", "library", s.nvml.path, "error", err)
	}
}

// stuck says whether a call about one of the GPUs hangs.
func (s *session) stuck() bool {
	return slices.ContainsFunc(s.slots, func(slot *gpuSlot) bool { return slot.lane.stuck() })
}

// count asks how many GPUs NVML sees.
func (h *Host) count(s *session) (int, error) {
	return onLane(h.hostLane, s.nvml, func(c *caller) (int, error) {
		var count uint32
		err := c.call(fnCount, uintptr(unsafe.Pointer(&count)))
		return int(count), err
	})
}

// resize gives the session one slot for each GPU. All are found anew when their
// number changes, since NVML counts without gaps.
func (h *Host) resize(s *session, count int) {
	if len(s.slots) == count {
		return
	}
	lanes := make([]*lane, 0, count)
	for _, slot := range s.slots {
		if len(lanes) < count {
			lanes = append(lanes, slot.lane)
		}
	}
	for len(lanes) < count {
		lanes = append(lanes, h.newLane())
	}
	s.slots = make([]*gpuSlot, count)
	for i := range s.slots {
		s.slots[i] = &gpuSlot{index: i, lane: lanes[i]}
	}
	s.links = nil
}
