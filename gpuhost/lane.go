// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// callLimit is how long one NVML call may take before its GPU counts as hung.
const callLimit = 2 * time.Second

// lane lets the NVML calls about one GPU, or about the host as a whole, through
// one after the other and watches their time. When a call hangs, whoever waits
// for it is sent away with a HungError and the lane is closed until that call
// has come back: other lanes go on, and at most one thread hangs in each.
type lane struct {
	limit time.Duration
	log   hclog.Logger // of panics in a batch; nil for none
	freed func()       // called when a batch that was given up has ended; may be nil

	mu    sync.Mutex    // guards everything below
	done  chan struct{} // closed when the running batch ends; nil when none runs
	call  string        // the call in progress, empty between calls
	since time.Time     // when it began
	hung  *HungError    // set while a call is given up
}

func newLane(limit time.Duration) *lane {
	if limit <= 0 {
		limit = callLimit
	}
	return &lane{limit: limit}
}

// caller makes NVML calls on a lane; it is used by one goroutine.
type caller struct {
	nvml  *nvml
	lane  *lane
	fault error // concerns the whole GPU; every further call returns it
	// patient: its batch goes on when it was given up.
	patient bool
}

// errGivenUp ends a batch whose lane was given up while it hung.
var errGivenUp = errors.New("given up")

// enter waits until the lane is free; it fails at once while a call hangs.
func (l *lane) enter() error {
	for {
		l.mu.Lock()
		if l.hung != nil {
			defer l.mu.Unlock()
			return l.hung
		}
		if l.done == nil {
			l.done = make(chan struct{})
			l.mu.Unlock()
			return nil
		}
		done := l.done
		l.mu.Unlock()
		timer := time.NewTimer(l.limit)
		select {
		case <-done:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// leave frees the lane when a batch ended, hung or not.
func (l *lane) leave() {
	l.mu.Lock()
	late := l.hung != nil
	close(l.done)
	l.done, l.call, l.hung = nil, "", nil
	l.mu.Unlock()
	if late && l.freed != nil {
		l.freed()
	}
}

// begin notes that a call starts.
func (l *lane) begin(call string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hung != nil {
		return errGivenUp
	}
	l.call, l.since = call, time.Now()
	return nil
}

// end notes that the call came back, and tells whether anybody still waits.
func (l *lane) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call = ""
	if l.hung != nil {
		return errGivenUp
	}
	return nil
}

// check tells how long the call in progress may still take, or gives it up.
func (l *lane) check() (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.call == "" {
		return l.limit, nil
	}
	rest := l.limit - time.Since(l.since)
	if rest > 0 {
		return rest, nil
	}
	l.hung = &HungError{Call: l.call, Limit: l.limit}
	return 0, l.hung
}

// stuck says whether a call hangs.
func (l *lane) stuck() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung != nil
}

// begin notes that a call starts, unless the caller was given up and minds that.
func (c *caller) begin(call string) error {
	err := c.lane.begin(call)
	if c.patient {
		return nil
	}
	return err
}

// end notes that the call came back, as begin does.
func (c *caller) end() error {
	err := c.lane.end()
	if c.patient {
		return nil
	}
	return err
}
