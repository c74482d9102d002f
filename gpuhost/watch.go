// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import "sync"

// watchers are those who want to hear of changes between two inventories.
type watchers struct {
	mu       sync.Mutex             // guards everything below
	channels map[chan struct{}]bool // each with room for one message
}

// Watch gives a channel that receives a value when something about the host's
// GPUs has changed between two inventories: an XID event, a GPU that stopped to
// answer, a driver that was unloaded or replaced. While somebody watches, events of the driver are waited for. stop ends
// it; the channel is never closed.
func (h *Host) Watch() (changed <-chan struct{}, stop func()) {
	channel := make(chan struct{}, 1)
	h.watchers.mu.Lock()
	defer h.watchers.mu.Unlock()
	if h.watchers.channels == nil {
		h.watchers.channels = make(map[chan struct{}]bool)
	}
	h.watchers.channels[channel] = true
	return channel, func() {
		h.watchers.mu.Lock()
		defer h.watchers.mu.Unlock()
		delete(h.watchers.channels, channel)
	}
}

// any says whether somebody watches.
func (w *watchers) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.channels) > 0
}

// wake tells all watchers; one that has not taken the last message needs no
// second one.
func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for channel := range w.channels {
		select {
		case channel <- struct{}{}:
		default:
		}
	}
}
