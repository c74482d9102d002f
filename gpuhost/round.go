// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"sync"
	"time"

	"github.com/gpu-docker/gpu-docker/guard"
)

// spreadAfter is how long the goroutines of a round may take before it gets more
// of them.
const spreadAfter = 2 * time.Millisecond

// answer is what a batch returned.
type answer[T any] struct {
	value T
	err   error
}

// round runs one batch on each of several lanes. One goroutine takes them up one
// after the other: where NVML answers quickly, waking a thread for each GPU
// would cost more than all calls do. While that takes long there are twice as
// many every spreadAfter, until each lane has its own; so a slow or hung GPU
// holds up no other.
type round[T any] struct {
	nvml  *nvml
	lanes []*lane
	batch func(i int, c *caller) (T, error)

	mu      sync.Mutex // guards everything below
	workers int        // goroutines that were started
	next    int        // the first lane that is not taken up
	entered []bool     // the batch of the lane has begun
	told    []bool     // the answer is there, or was given up
	open    int        // answers that are missing
	answers []answer[T]
	done    chan struct{} // closed with the last answer
}

// onLane runs a batch of calls on a lane and waits for it as long as each call
// keeps within the limit. What the batch returns must not be shared with it
// otherwise: after a hang it may still be running.
func onLane[T any](l *lane, n *nvml, batch func(c *caller) (T, error)) (T, error) {
	a := onLanes([]*lane{l}, n, func(_ int, c *caller) (T, error) { return batch(c) })[0]
	return a.value, a.err
}

// onLanes runs the batch with the number of each lane, like onLane, and returns
// the answers in the order of the lanes.
func onLanes[T any](lanes []*lane, n *nvml, batch func(i int, c *caller) (T, error)) []answer[T] {
	r := &round[T]{
		nvml: n, lanes: lanes, batch: batch, open: len(lanes), done: make(chan struct{}),
		entered: make([]bool, len(lanes)), told: make([]bool, len(lanes)), answers: make([]answer[T], len(lanes)),
	}
	if len(lanes) == 0 {
		return nil
	}
	timer := time.NewTimer(r.attend())
	defer timer.Stop()
	for {
		select {
		case <-r.done:
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.answers
		case <-timer.C:
			timer.Reset(r.attend())
		}
	}
}

// attend starts goroutines where some are missing, gives up what hangs, and
// returns the time to its next turn.
func (r *round[T]) attend() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range min(max(1, r.workers), len(r.lanes)-r.next) {
		r.workers++
		go r.work()
	}
	wait := callLimit
	if r.next < len(r.lanes) {
		wait = spreadAfter
	}
	for i, l := range r.lanes {
		if !r.entered[i] || r.told[i] {
			wait = min(wait, l.limit)
			continue
		}
		rest, err := l.check()
		if err != nil {
			r.tell(i, answer[T]{err: err})
			continue
		}
		wait = min(wait, rest)
	}
	return wait
}

// work takes up lanes until none is left.
func (r *round[T]) work() {
	defer guard.Log(r.lanes[0].log, "asking the GPUs")
	for {
		r.mu.Lock()
		i := r.next
		if i == len(r.lanes) {
			r.mu.Unlock()
			return
		}
		r.next++
		r.mu.Unlock()
		a := r.one(i)
		r.mu.Lock()
		r.tell(i, a)
		r.mu.Unlock()
	}
}

// one runs the batch of one lane.
func (r *round[T]) one(i int) (a answer[T]) {
	l := r.lanes[i]
	if err := l.enter(); err != nil {
		return answer[T]{err: err}
	}
	r.mu.Lock()
	r.entered[i] = true
	r.mu.Unlock()
	defer l.leave()
	defer guard.Catch(l.log, "asking a GPU", &a.err)
	a.value, a.err = r.batch(i, &caller{nvml: r.nvml, lane: l})
	return a
}

// tell keeps the answer of a lane, unless it was given up; r.mu is held.
func (r *round[T]) tell(i int, a answer[T]) {
	if r.told[i] {
		return
	}
	r.told[i], r.answers[i] = true, a
	if r.open--; r.open == 0 {
		close(r.done)
	}
}
