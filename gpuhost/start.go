// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"sync"
)

// started is a library that is loaded and initialised.
type started struct {
	nvml   *nvml
	stamp  stamp
	driver Driver
}

// lateStart is a start that ended when nobody waited for it any more. Without a
// persistence daemon nvmlInit starts every GPU, which can take longer than any
// reader waits, each time anew: so what it achieved is kept (cases DEV-19).
type lateStart struct {
	mu     sync.Mutex // guards everything below
	result *started   // nil when there is none
	closed bool       // nobody will come for one
}

// open begins a session. The error is the inventory's Reason.
func (h *Host) open(now stamp, path string) (*session, error) {
	result := h.takeLate(now)
	if result == nil {
		var err error
		result, err = onLane(h.hostLane, nil, func(c *caller) (*started, error) { return h.start(c, now, path) })
		if err != nil {
			return nil, h.explain(err, now, path)
		}
	}
	h.reportSymbols(result.nvml, result.driver.Version)
	return &session{nvml: result.nvml, stamp: now, driver: result.driver}, nil
}

// start loads and initialises the library, and goes on when it was given up.
func (h *Host) start(c *caller, now stamp, path string) (*started, error) {
	c.patient = true
	n, err := c.load(path)
	if err != nil {
		return nil, fmt.Errorf("NVML library %q is not usable: %w", path, err)
	}
	c.nvml = n
	driver, err := initialise(c, now)
	if err != nil {
		if !isFault(err) {
			err = errors.Join(err, n.close())
		}
		return nil, err
	}
	driver.Library = path
	result := &started{n, now, driver}
	if !c.lane.stuck() {
		return result, nil
	}
	return nil, h.keepLate(c, result)
}

// load loads a library, which counts as a call: its file system may hang.
func (c *caller) load(path string) (*nvml, error) {
	if err := c.begin("dlopen"); err != nil {
		return nil, err
	}
	n, err := loadNVML(path)
	return n, errors.Join(err, c.end())
}

// keepLate keeps a start for the next look, or undoes it when there is none.
func (h *Host) keepLate(c *caller, result *started) error {
	h.late.mu.Lock()
	defer h.late.mu.Unlock()
	if h.late.closed {
		return errors.Join(errGivenUp, c.call(fnShutdown), result.nvml.close())
	}
	h.late.result = result
	return errGivenUp
}

// takeLate gives the start that ended late, if it is of the driver that is there
// now; nil without one.
func (h *Host) takeLate(now stamp) *started {
	h.late.mu.Lock()
	result := h.late.result
	h.late.result = nil
	h.late.mu.Unlock()
	if result != nil && result.stamp != now {
		h.end(&session{nvml: result.nvml})
		return nil
	}
	return result
}

// tellLate makes everybody look when a start has ended late. It is called when the
// host's lane is free again.
func (h *Host) tellLate() {
	h.late.mu.Lock()
	ended := h.late.result != nil
	h.late.mu.Unlock()
	if ended {
		h.inventory.expire()
		h.watchers.wake()
	}
}

// closeLate ends a start that ended late, or will.
func (h *Host) closeLate() {
	h.late.mu.Lock()
	result := h.late.result
	h.late.result, h.late.closed = nil, true
	h.late.mu.Unlock()
	if result != nil {
		h.end(&session{nvml: result.nvml})
	}
}
