// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"strings"
)

// noSessionError says why there is no driver to talk to, in words for people.
type noSessionError struct {
	reason string
	gone   bool // there is none at all, as opposed to one that fails
	// mismatch: the library is of another driver than the loaded kernel module.
	mismatch bool
}

func (e *noSessionError) Error() string { return e.reason }

// explain turns a failed start into the reason that people read.
func (h *Host) explain(err error, now stamp, path string) error {
	var hung *HungError
	if errors.As(err, &hung) {
		return hung
	}
	var failed *Error
	if !errors.As(err, &failed) {
		return &noSessionError{reason: err.Error()}
	}
	switch failed.Code {
	case CodeVersionMismatch:
		return &noSessionError{mismatch: true, reason: mismatchText(now.kernel, libraryVersion(path))}
	case CodeDriverNotLoaded:
		return &noSessionError{gone: true, reason: h.root.blamed("the NVIDIA kernel module is not loaded (code 9)", "run \"modprobe nvidia\" or install the driver")}
	}
	return &noSessionError{reason: fmt.Sprintf("NVML cannot be used: %s", failed)}
}

// blamed completes why there is no driver with the next step. Where nouveau has the
// GPUs, that is another one: NVIDIA's module finds nothing until it lets them go
// (cases VOL-10).
func (r root) blamed(reason, cure string) string {
	held := r.pciGPUs(driverNouveau)
	if len(held) == 0 {
		return reason + "; " + cure
	}
	return fmt.Sprintf("%s: the driver nouveau holds %s; install the NVIDIA driver, blacklist nouveau in /etc/modprobe.d, rebuild the initramfs and reboot",
		reason, strings.Join(held, ", "))
}

// mismatchText says that the user-space files belong to another driver than the
// loaded kernel module (cases VOL-05).
func mismatchText(kernel, library string) string {
	return fmt.Sprintf("driver/library version mismatch (code 18); reboot or reload needed: kernel %s, library %s",
		orUnknown(kernel), orUnknown(library))
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
