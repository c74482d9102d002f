// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import "sync"

// refresh makes the fingerprint streams send before their period is over. The
// zero value is ready; safe for concurrent use.
type refresh struct {
	mu   sync.Mutex    // guards next
	next chan struct{} // closed by the next Now; nil while nobody waits
}

// Wait returns a channel that the next call of Now closes.
func (r *refresh) Wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// Now wakes all that wait.
func (r *refresh) Now() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}
