// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"maps"
	"time"
	"unsafe"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// eventTurn is how long one wait for events lasts, in milliseconds, and so
	// how long the end of a session waits for it. Each costs some processor time.
	eventTurn = 2000
	// eventPause keeps a library that fails at every wait from being asked in a
	// tight loop.
	eventPause = time.Second
	// eventXID is NVML's event type of critical XID errors.
	eventXID = 8
)

// eventWatch waits for the events of one session's GPUs, in one goroutine. Its
// methods work on a nil watch.
type eventWatch struct {
	gpus   map[uintptr]identity // the GPUs that are waited for, by handle
	kernel string               // the session's kernel module
	quit   chan struct{}
	// ready is closed when events are noticed from now on, done when the
	// goroutine has ended.
	ready, done chan struct{}
}

// attendEvents sees to it that the session's events are waited for while
// somebody watches, also after the GPUs changed or a wait failed.
func (h *Host) attendEvents(s *session) {
	if !h.watchers.any() {
		return
	}
	h.inject(s)
	gpus := make(map[uintptr]identity)
	for _, slot := range s.slots {
		if slot.handle != 0 {
			gpus[slot.handle] = slot.id
		}
	}
	if s.events.running() && maps.Equal(s.events.gpus, gpus) {
		return
	}
	s.events.stop()
	if s.events.running() || len(gpus) == 0 {
		return
	}
	s.events = &eventWatch{gpus: gpus, kernel: s.stamp.kernel, quit: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{})}
	go h.awaitEvents(s.events, &caller{nvml: s.nvml, lane: newLane(0)})
	s.events.begun()
}

// begun waits until events are noticed, so that none is missed after the
// inventory that says so, but not long.
func (w *eventWatch) begun() {
	timer := time.NewTimer(callLimit)
	defer timer.Stop()
	select {
	case <-w.ready:
	case <-w.done:
	case <-timer.C:
	}
}

// running says whether the goroutine has not ended.
func (w *eventWatch) running() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// stop asks the goroutine to end and waits for its turn to be over.
func (w *eventWatch) stop() {
	if w == nil {
		return
	}
	select {
	case <-w.quit:
	default:
		close(w.quit)
	}
	timer := time.NewTimer(eventTurn*time.Millisecond + callLimit)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}

// awaitEvents is the goroutine of a watch.
func (h *Host) awaitEvents(w *eventWatch, c *caller) {
	defer guard.Log(h.log, "waiting for XID events")
	defer close(w.done)
	var set uintptr
	if err := c.call(fnEventSetCreate, uintptr(unsafe.Pointer(&set))); err != nil {
		h.noEvents(err)
		return
	}
	defer func() {
		c.fault = nil
		if err := c.call(fnEventSetFree, set); err != nil {
			h.log.Debug("event set not freed", "error", err)
		}
	}()
	if !h.register(w, c, set) {
		return
	}
	close(w.ready)
	for {
		select {
		case <-w.quit:
			return
		default:
		}
		var event nvmlEventData
		c.fault = nil
		err := c.call(fnEventSetWait, set, uintptr(unsafe.Pointer(&event)), eventTurn)
		switch {
		case err == nil:
			h.noteEvent(w.gpus[event.device], &event)
		case codeOf(err) == CodeTimeout:
		case isFault(err):
			h.inventory.expire()
			h.watchers.wake()
			w.pause()
		case h.root.kernelVersion() != w.kernel:
			h.inventory.expire()
			h.watchers.wake()
			return // the next inventory begins anew
		default:
			h.noEvents(err)
			return
		}
	}
}

// pause waits a moment or for the end of the watch.
func (w *eventWatch) pause() {
	timer := time.NewTimer(eventPause)
	defer timer.Stop()
	select {
	case <-w.quit:
	case <-timer.C:
	}
}

// register asks for the XID events of all GPUs; false when no GPU has any. Those
// without are watched by the queries of each inventory alone.
func (h *Host) register(w *eventWatch, c *caller, set uintptr) bool {
	registered := false
	for device, id := range w.gpus {
		var types uint64
		c.fault = nil
		err := c.call(fnEventTypes, device, uintptr(unsafe.Pointer(&types)))
		if err == nil && types&eventXID != 0 {
			err = c.call(fnRegisterEvents, device, eventXID, set)
			registered = registered || err == nil
		}
		if err != nil {
			h.once("events "+id.uuid+err.Error(), func() {
				h.log.Info("no XID events from this GPU; its health is polled", "uuid", id.uuid, "reason", err)
			})
		}
	}
	return registered
}

// noEvents logs once why events cannot be waited for.
func (h *Host) noEvents(err error) {
	var failed *Error
	if errors.As(err, &failed) && failed.Code == CodeUninitialized {
		return // the driver was unloaded, which the next inventory tells
	}
	h.once("events "+err.Error(), func() {
		h.log.Warn("XID events cannot be waited for; the GPUs' health is polled", "reason", err)
	})
}

// noteEvent counts an XID and, if it is fatal, makes its GPU unhealthy.
func (h *Host) noteEvent(id identity, event *nvmlEventData) {
	if event.eventType != eventXID || id.uuid == "" {
		return
	}
	xid := event.eventData
	h.xidsMu.Lock()
	if h.xids[id.uuid] == nil {
		h.xids[id.uuid] = make(map[uint64]uint64)
	}
	h.xids[id.uuid][xid]++
	h.xidsMu.Unlock()
	fatal := h.cfg.XID.isFatal(xid)
	h.log.Warn("XID event", "uuid", id.uuid, "bus_id", id.busID, "event", xidText(xid), "fatal", fatal)
	if fatal {
		h.judge(id.uuid, xidText(xid)+" at "+id.busID)
	}
	h.inventory.expire()
	h.watchers.wake()
}

// XIDs counts the XID events since this host was opened, by GPU UUID and XID
// number. They are only seen while somebody watches (Watch).
func (h *Host) XIDs() map[string]map[uint64]uint64 {
	h.xidsMu.Lock()
	defer h.xidsMu.Unlock()
	counts := make(map[string]map[uint64]uint64, len(h.xids))
	for uuid, xids := range h.xids {
		counts[uuid] = maps.Clone(xids)
	}
	return counts
}
