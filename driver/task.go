// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// logShipping is one task's log collection; nil when it is off.
type logShipping interface {
	// Drain returns when everything that the ended container wrote is
	// delivered, or when ctx ends.
	Drain(ctx context.Context)
	// Stop ends the shipping and keeps its position for the next process.
	Stop()
	// Close ends the shipping for good.
	Close()
}

// task is one task that this process looks after, from the end of StartTask or
// RecoverTask until DestroyTask.
type task struct {
	cfg   *drivers.TaskConfig // read only
	state *taskState          // read only

	// ctx ends when the task is destroyed or the plugin shuts down.
	ctx    context.Context
	cancel context.CancelFunc
	// done is closed when the result is known.
	done chan struct{}
	// watched is closed when nobody watches the task any more: after its end, and
	// after the look at its GPUs that follows.
	watched chan struct{}
	// oom is closed when engine or kernel reported that a process of the container was
	// killed for lack of memory.
	oom     chan struct{}
	oomOnce sync.Once

	mu          sync.Mutex // guards everything below
	result      *drivers.ExitResult
	completedAt time.Time
	logs        logShipping // nil without log collection
	// failure, when set, replaces the text of the result: why we ended the task.
	failure error
	// reconnecting: the engine was away at recovery and nothing is known yet.
	reconnecting bool
	// ending: somebody wanted the task to end.
	ending bool
	// cgroupDir is the container's cgroup on version 2; empty when not known.
	cgroupDir string
}

func newTask(parent context.Context, cfg *drivers.TaskConfig, s *taskState) *task {
	ctx, cancel := context.WithCancel(parent)
	return &task{cfg: cfg, state: s, ctx: ctx, cancel: cancel, done: make(chan struct{}), watched: make(chan struct{}), oom: make(chan struct{})}
}

// exited says whether the result is known.
func (t *task) exited() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// finish publishes the result; later calls change nothing.
func (t *task) finish(r *drivers.ExitResult, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.result != nil {
		return
	}
	if t.failure != nil {
		r.Err = t.failure
	}
	t.result, t.completedAt = r, at
	close(t.done)
}

// failWith sets the text that the coming result will have.
func (t *task) failWith(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = err
}

// exitResult returns a copy of the result, nil while the task runs.
func (t *task) exitResult() (*drivers.ExitResult, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result.Copy(), t.completedAt
}

// setShipping gives the task its log collection; nil for none.
func (t *task) setShipping(logs logShipping) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs = logs
}

// shipping is the task's log collection; nil without one.
func (t *task) shipping() logShipping {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logs
}

func (t *task) setReconnecting(v bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reconnecting = v
}

func (t *task) isReconnecting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reconnecting
}

func (t *task) noteOOM() { t.oomOnce.Do(func() { close(t.oom) }) }

func (t *task) oomSeen() bool {
	select {
	case <-t.oom:
		return true
	default:
		return false
	}
}

// wantEnd notes that the task is about to be ended on purpose.
func (t *task) wantEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
}

// noteSignal notes what a signal, as parseSignal names it, is about to do.
func (t *task) noteSignal(name string) {
	if name == "SIGKILL" || name == "9" {
		t.wantEnd()
	}
}

func (t *task) endWanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending
}

func (t *task) setCgroupDir(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cgroupDir = dir
}

func (t *task) cgroup() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cgroupDir
}
