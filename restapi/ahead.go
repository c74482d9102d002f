// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// freshFor is how old an answer of the host may be before it asks the driver
	// anew and lets its readers wait.
	freshFor = time.Second
	// graceFor is how long after that requests still get the old answer at once,
	// while the new one is fetched behind them: with many requests a second, a
	// driver that takes 20 ms would else let one in fifty wait for it.
	graceFor = 250 * time.Millisecond
)

// aheadHost is a host whose readers do not wait for the driver as long as they
// come often enough.
type aheadHost struct {
	Host
	inventory ahead[*gpuhost.Inventory]
	readings  ahead[*gpuhost.Readings]
}

func newAheadHost(h Host, log hclog.Logger) *aheadHost {
	return &aheadHost{
		Host:      h,
		inventory: ahead[*gpuhost.Inventory]{log: log, ask: h.Inventory, timeOf: func(i *gpuhost.Inventory) time.Time { return i.Time }},
		readings:  ahead[*gpuhost.Readings]{log: log, ask: h.Readings, timeOf: func(r *gpuhost.Readings) time.Time { return r.Time }},
	}
}

// Inventory is at most freshFor and graceFor old.
func (h *aheadHost) Inventory(ctx context.Context) *gpuhost.Inventory { return h.inventory.get(ctx) }

// Readings are at most freshFor and graceFor old.
func (h *aheadHost) Readings(ctx context.Context) *gpuhost.Readings { return h.readings.get(ctx) }

// ahead keeps the last answer to give it out while the next is fetched.
type ahead[T any] struct {
	log    hclog.Logger
	ask    func(context.Context) T
	timeOf func(T) time.Time

	mu       sync.Mutex // guards everything below
	last     T
	time     time.Time // of last; zero before the first
	fetching bool
}

// get gives the host's answer, or the last one if that is only a little too old.
func (a *ahead[T]) get(ctx context.Context) T {
	if last, ok := a.lateAnswer(); ok {
		return last
	}
	return a.keep(a.ask(ctx))
}

// lateAnswer gives the last answer in its time of grace and sees to the next.
func (a *ahead[T]) lateAnswer() (last T, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := time.Since(a.time); age < freshFor || age > freshFor+graceFor {
		return last, false
	}
	if !a.fetching {
		a.fetching = true
		go a.fetch()
	}
	return a.last, true
}

// fetch asks in the background; the host bounds how long that takes.
func (a *ahead[T]) fetch() {
	defer guard.Log(a.log, "asking the GPU host")
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.fetching = false
	}()
	a.keep(a.ask(context.Background()))
}

func (a *ahead[T]) keep(value T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last, a.time = value, a.timeOf(value)
	return value
}
