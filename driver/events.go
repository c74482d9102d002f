// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// eventBuffer holds what a slow subscriber has not read yet.
	eventBuffer = 64
	// eventPatience is how long a subscriber with a full buffer may block before
	// it loses the event (task-driver EV-1).
	eventPatience = 2 * time.Second
	// repeatAfter is how long an equal event of one task is held back: an agent
	// keeps a task's last ten events only (task-driver GR-12).
	repeatAfter = time.Minute
)

// eventer broadcasts task events to all subscribers. Emitting never blocks.
type eventer struct {
	log hclog.Logger
	now func() time.Time

	mu   sync.Mutex // guards everything below
	subs map[*subscriber]struct{}
	// last is when an event was sent, for those of at most the last two repeatAfter.
	last map[eventKey]time.Time
	tidy time.Time // when last was cleared of older ones
}

// eventKey is what makes two events equal.
type eventKey struct{ taskID, message string }

// subscriber has an inbox without limit of blocking: in is filled by emit, one
// goroutine moves it to out.
type subscriber struct {
	in  chan *drivers.TaskEvent
	out chan *drivers.TaskEvent
}

func newEventer(log hclog.Logger) *eventer {
	return &eventer{log: log, now: time.Now, subs: map[*subscriber]struct{}{}, last: map[eventKey]time.Time{}}
}

// Subscribe returns the events from now on. The channel is closed after ctx ends.
func (e *eventer) Subscribe(ctx context.Context) <-chan *drivers.TaskEvent {
	s := &subscriber{in: make(chan *drivers.TaskEvent, eventBuffer), out: make(chan *drivers.TaskEvent)}
	e.mu.Lock()
	e.subs[s] = struct{}{}
	e.mu.Unlock()
	go e.feed(ctx, s)
	return s.out
}

// feed hands one subscriber its events, dropping those that it does not take in time.
func (e *eventer) feed(ctx context.Context, s *subscriber) {
	defer guard.Log(e.log, "task events")
	defer close(s.out)
	defer func() {
		e.mu.Lock()
		delete(e.subs, s)
		e.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-s.in:
			if !deliver(ctx, s.out, ev) {
				return
			}
		}
	}
}

// deliver reports false when the subscriber is gone.
func deliver(ctx context.Context, out chan<- *drivers.TaskEvent, ev *drivers.TaskEvent) bool {
	patience := time.NewTimer(eventPatience)
	defer patience.Stop()
	select {
	case out <- ev:
	case <-patience.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// Emit tells the user something about a task. The message is also the event's
// text in "nomad alloc status". Annotations may be nil.
func (e *eventer) Emit(cfg *drivers.TaskConfig, message string, annotations map[string]string) {
	ev := &drivers.TaskEvent{
		TaskID: cfg.ID, TaskName: cfg.Name, AllocID: cfg.AllocID,
		Timestamp: e.now(), Message: message, Annotations: annotations,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := eventKey{cfg.ID, message}
	if at, seen := e.last[key]; seen && ev.Timestamp.Sub(at) < repeatAfter {
		return
	}
	e.forgetOld(ev.Timestamp)
	e.last[key] = ev.Timestamp
	for s := range e.subs {
		select {
		case s.in <- ev:
		default: // this subscriber is far behind and loses the event
		}
	}
}

// forgetOld drops what holds nothing back any more: a start that fails has an id of its
// own each time. e.mu is held.
func (e *eventer) forgetOld(now time.Time) {
	if now.Sub(e.tidy) < repeatAfter {
		return
	}
	e.tidy = now
	maps.DeleteFunc(e.last, func(_ eventKey, at time.Time) bool { return now.Sub(at) >= repeatAfter })
}
