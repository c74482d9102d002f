// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/guard"
)

// freshFor is how long an answer is shared before NVML is asked again.
const freshFor = time.Second

// shared is an answer that all readers share: it is renewed by one goroutine at
// a time, however many ask.
type shared[T any] struct {
	log      hclog.Logger
	renew    func() T
	patience time.Duration // how long a reader waits for a fresh answer

	mu      sync.Mutex // guards everything below
	value   T
	time    time.Time     // when value was complete; zero when it must be renewed
	running chan struct{} // closed when the renewal ends; nil when none runs
	expired bool          // during the renewal, which may have missed why
	closed  bool
}

// get returns an answer not older than freshFor that knows of all that made it
// expire before the call, or the last one when that takes longer than the patience
// or ctx ends first.
func (s *shared[T]) get(ctx context.Context) T {
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	for range 2 { // a renewal that began before the call may have missed something
		running := s.start()
		if running == nil {
			return s.last()
		}
		select {
		case <-running:
		case <-timer.C:
			return s.last()
		case <-ctx.Done():
			return s.last()
		}
	}
	return s.last()
}

// start begins a renewal unless one runs or none is needed, and returns its end;
// nil when the answer is fresh.
func (s *shared[T]) start() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	if s.closed || time.Since(s.time) < freshFor {
		return nil
	}
	running := make(chan struct{})
	s.running, s.expired = running, false
	go s.renewOnce(running)
	return running
}

// renewOnce takes a new answer. One that ends in a panic leaves the last answer for
// as long as a new one would count.
func (s *shared[T]) renewOnce(running chan struct{}) {
	defer guard.Log(s.log, "asking the NVIDIA driver")
	value := s.last()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.value, s.time, s.running = value, time.Now(), nil
		if s.expired {
			s.time = time.Time{}
		}
		close(running)
	}()
	value = s.renew()
}

// last is the last answer.
func (s *shared[T]) last() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// expire makes the next reader ask anew.
func (s *shared[T]) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time, s.expired = time.Time{}, true
}

// close waits for a running renewal; there will be no other.
func (s *shared[T]) close() {
	s.mu.Lock()
	s.closed = true
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}
