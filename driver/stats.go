// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// Pauses between two tries to open the engine's stream (task-driver TS-2).
	firstStatsRetry = 5 * time.Second
	maxStatsRetry   = 2 * time.Minute
	// minStatsInterval keeps a wrong interval from becoming a busy loop.
	minStatsInterval = 100 * time.Millisecond
)

// errStopped tells the agent to give up asking for statistics.
var errStopped = errors.New("container stopped")

// TaskStats streams a task's resource usage: the first sample at once, then the
// latest every interval. A sample that is not taken is dropped. The channel is
// closed when ctx or the task ends.
func (d *Driver) TaskStats(ctx context.Context, taskID string, interval time.Duration) (<-chan *drivers.TaskResourceUsage, error) {
	t, err := d.tasks.Get(taskID)
	if err != nil {
		return nil, err
	}
	p, err := d.ready()
	if err != nil {
		return nil, err
	}
	if t.exited() {
		return nil, structs.NewRecoverableError(errStopped, false)
	}
	out := make(chan *drivers.TaskResourceUsage, 1)
	go func() {
		defer close(out)
		defer d.guard("stats")
		p.relayStats(ctx, t, max(interval, minStatsInterval), out)
	}()
	return out, nil
}

// relayStats reads the engine's stream and paces it. It ends with ctx or the task.
func (p *parts) relayStats(ctx context.Context, t *task, interval time.Duration, out chan<- *drivers.TaskResourceUsage) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	samples := make(chan *drivers.TaskResourceUsage)
	go func() {
		defer guard.Log(p.logger, "stats")
		defer close(samples)
		p.readStats(ctx, t, samples)
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var latest *drivers.TaskResourceUsage
	first := true
	for {
		select {
		case s, open := <-samples:
			if !open {
				return
			}
			if latest = s; first {
				first = false
				latest = offer(out, latest)
			}
		case <-tick.C:
			latest = offer(out, latest)
		case <-t.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// offer sends a sample unless there is none or the reader is behind; either way
// it has been dealt with.
func offer(out chan<- *drivers.TaskResourceUsage, s *drivers.TaskResourceUsage) *drivers.TaskResourceUsage {
	if s != nil {
		select {
		case out <- s:
		default:
		}
	}
	return nil
}

// readStats delivers every sample of the engine until ctx ends or the container
// does not run any more. Failures are tried again.
func (p *parts) readStats(ctx context.Context, t *task, samples chan<- *drivers.TaskResourceUsage) {
	delay := firstStatsRetry
	for {
		got, err := p.readStatsStream(ctx, t, samples)
		if ctx.Err() != nil || t.exited() {
			return
		}
		if got {
			delay = firstStatsRetry
		}
		p.logger.Debug("statistics stream ended, will be opened again", "task_id", t.cfg.ID, "in", delay, "error", err)
		select {
		case <-time.After(delay):
		case <-t.done:
			return
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, maxStatsRetry)
	}
}

// readStatsStream reads one stream to its end and says whether it gave a sample.
func (p *parts) readStatsStream(ctx context.Context, t *task, samples chan<- *drivers.TaskResourceUsage) (bool, error) {
	stream, err := p.engine.Stats(ctx, t.state.ContainerID)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	got := false
	for in := json.NewDecoder(stream); ; got = true {
		var s container.StatsResponse
		if err := in.Decode(&s); err != nil {
			return got, err
		}
		if s.Read.IsZero() {
			continue // what engines send of a container that has just ended
		}
		select {
		case samples <- usage(&s, t.state.NodeMHz, readCgroupMemory(t)):
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
}
