// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// tellReason logs why there is no driver or no GPU, when that has changed, and
// tells what is there when it begins to be (cases DEV-04 and DEV-32).
func (h *Host) tellReason(inventory *Inventory) {
	if h.told != nil && *h.told == inventory.Reason {
		return
	}
	h.told = &inventory.Reason
	if inventory.Reason != "" {
		h.log.Warn("no usable NVIDIA GPU", "reason", inventory.Reason)
		return
	}
	h.log.Info("NVIDIA driver found", "driver", inventory.Driver.Version, "cuda", inventory.Driver.CUDA.String(),
		"library", inventory.Driver.Library, "gpus", len(inventory.GPUs))
}

// tellSkipped logs each GPU that cannot be used at all, once.
func (h *Host) tellSkipped(inventory *Inventory) {
	for _, line := range inventory.Skipped {
		h.once("skipped "+line, func() { h.log.Warn("GPU left out", "reason", line) })
	}
}

// once does something the first time it is asked for under this name.
func (h *Host) once(name string, do func()) {
	h.onceMu.Lock()
	seen := h.done[name]
	h.done[name] = true
	h.onceMu.Unlock()
	if !seen {
		do()
	}
}
