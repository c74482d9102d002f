// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Injection is an XID event that is played once when its GPU is first seen, so
// that operators can rehearse what a fault sets in motion (cases MET-06).
type Injection struct {
	UUID string
	XID  uint64
}

// ParseInjections reads an operator's list of "<GPU UUID>:<XID>".
func ParseInjections(words []string) ([]Injection, error) {
	var all []Injection
	for _, word := range words {
		uuid, number, _ := strings.Cut(word, ":")
		xid, err := strconv.ParseUint(number, 10, 32)
		if err != nil || !strings.HasPrefix(uuid, "GPU-") {
			return nil, fmt.Errorf("%q is not \"<GPU UUID>:<XID>\", such as \"GPU-fef8089b-4820-4a6a-8a5c-b5a0f9e9e1a7:79\"", word)
		}
		all = append(all, Injection{UUID: uuid, XID: xid})
	}
	return all, nil
}

// inject plays the injections whose GPUs are there, as if the driver had told
// them. Those of GPUs that are not wait for them, which the log says once.
func (h *Host) inject(s *session) {
	h.injections = slices.DeleteFunc(h.injections, func(i Injection) bool {
		for _, slot := range s.slots {
			if slot.handle != 0 && slot.id.uuid == i.UUID {
				h.log.Warn("an XID event is played as configured, to rehearse it", "uuid", i.UUID, "xid", i.XID)
				h.noteEvent(slot.id, &nvmlEventData{eventType: eventXID, eventData: i.XID})
				return true
			}
		}
		h.once(fmt.Sprintf("inject %s %d", i.UUID, i.XID), func() {
			h.log.Warn("the GPU of inject_health is not there; \"gpu-docker info\" lists those that are", "uuid", i.UUID, "xid", i.XID)
		})
		return false
	})
}
