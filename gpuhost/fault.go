// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"time"
)

// faultText is one line about a failed query of a GPU: its code and bus id. It
// is the same whichever of the queries failed.
func faultText(err error, busID string) string {
	var hung *HungError
	if errors.As(err, &hung) {
		return hung.Error()
	}
	where := ""
	if busID != "" {
		where = " at " + busID
	}
	var failed *Error
	if !errors.As(err, &failed) {
		return err.Error() + where
	}
	return failed.Code.String() + where
}

// fault is a reason not to use a GPU, and when it was last seen.
type fault struct {
	text string
	last time.Time
}

// judge keeps the faults of GPUs: a problem is one until the GPU has been free of
// problems for the quiet time (cases DEV-15). It returns why the GPU must not be
// used; empty when it may.
func (h *Host) judge(uuid, problem string) string {
	h.faultsMu.Lock()
	defer h.faultsMu.Unlock()
	if problem != "" {
		h.faults[uuid] = fault{text: problem, last: time.Now()}
		return problem
	}
	known, faulty := h.faults[uuid]
	if !faulty {
		return ""
	}
	if time.Since(known.last) >= h.cfg.HealthyAfter {
		delete(h.faults, uuid)
		h.log.Info("GPU is healthy again", "uuid", uuid, "was", known.text)
		return ""
	}
	return fmt.Sprintf("%s; answers again, trusted after %s without a fault", known.text, h.cfg.HealthyAfter)
}

// atFault says whether a GPU has a fault that is not forgotten.
func (h *Host) atFault(uuid string) bool {
	h.faultsMu.Lock()
	defer h.faultsMu.Unlock()
	_, faulty := h.faults[uuid]
	return faulty
}

// forgive forgets all faults: another kernel module was loaded, or none is there
// any more, and then only the queries count.
func (h *Host) forgive() {
	h.faultsMu.Lock()
	defer h.faultsMu.Unlock()
	clear(h.faults)
}
