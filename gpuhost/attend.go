// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"time"
)

// lookAgain is how long to leave alone a library that sees fewer GPUs than the
// PCI bus has, before it is started anew once more.
const lookAgain = 10 * time.Second

// attend sees to it that the session is that of the driver which is there now.
func (h *Host) attend() error {
	path, id, err := h.nvmlPlace()
	now := stamp{kernel: h.root.kernelVersion(), library: id}
	if now.kernel != h.kernel {
		h.kernel = now.kernel
		h.forgive()
	}
	if h.session != nil && (err != nil || h.session.stamp != now) {
		h.log.Info("the NVIDIA driver has changed", "was", h.session.stamp.kernel, "now", orUnknown(now.kernel))
		h.leave()
	}
	if h.session != nil {
		h.askAgain(h.session)
		return nil
	}
	if err != nil {
		if errors.Is(err, errNoLibraryFile) && h.cfg.NVMLLibrary == "" {
			return &noSessionError{gone: true, reason: h.root.blamed(fmt.Sprintf("NVML library not found: no %s under %q", nvmlName, h.root), "install the NVIDIA driver")}
		}
		return &noSessionError{gone: true, reason: err.Error()}
	}
	h.session, err = h.open(now, path)
	return err
}

// leave ends the session. Faults outlive it: a GPU does not get well because NVML is
// started anew.
func (h *Host) leave() {
	h.end(h.session)
	h.session = nil
}

// recount gives the session as many slots as NVML sees GPUs. A driver that went
// away shows here; a library that sees other GPUs than the PCI bus has is
// started anew, since NVML looks for GPUs only then (cases DEV-18). It returns the
// GPUs on the bus.
func (h *Host) recount() (onBus []string, err error) {
	count, err := h.count(h.session)
	if err != nil {
		return nil, h.lostDriver(err)
	}
	onBus = h.root.pciGPUs(driverNVIDIA)
	seen := [2]int{len(onBus), count}
	differ := len(onBus) > 0 && len(onBus) != count && !h.session.stuck()
	if differ && (h.mismatch != seen || time.Since(h.mismatchTime) > lookAgain) {
		h.mismatch, h.mismatchTime = seen, time.Now()
		h.leave()
		if err := h.attend(); err != nil {
			return nil, err
		}
		if count, err = h.count(h.session); err != nil {
			return nil, h.lostDriver(err)
		}
	}
	h.resize(h.session, count)
	return onBus, nil
}

// lostDriver handles a session that cannot even count: the driver is gone, or
// NVML fails or hangs as a whole.
func (h *Host) lostDriver(err error) error {
	var hung *HungError
	if errors.As(err, &hung) {
		return err
	}
	reason := h.explain(err, h.session.stamp, h.session.nvml.path)
	h.leave()
	return reason
}
