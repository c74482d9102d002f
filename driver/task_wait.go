// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// drainLimit bounds how long an exit waits for the task's last log lines
	// (task-driver WT-5).
	drainLimit = 10 * time.Second
)

// WaitTask returns a channel that gets the task's result once, at any time
// until the task is destroyed.
func (d *Driver) WaitTask(ctx context.Context, taskID string) (<-chan *drivers.ExitResult, error) {
	t, err := d.tasks.Get(taskID)
	if err != nil {
		return nil, err
	}
	ch := make(chan *drivers.ExitResult, 1)
	go func() {
		defer d.guard("wait")
		defer close(ch)
		ch <- t.await(ctx)
	}()
	return ch, nil
}

// await returns the result, or one with ctx's error. It always returns a
// result: an agent cannot bear a closed channel (task-driver GR-8). The end of
// the plugin is no end of the task, so it does not end the wait.
func (t *task) await(ctx context.Context) *drivers.ExitResult {
	select {
	case <-t.done:
		r, _ := t.exitResult()
		return r
	case <-ctx.Done():
		return &drivers.ExitResult{Err: ctx.Err()}
	}
}

// watch waits for the end of the container, delivers its last log lines and
// publishes the result. It ends with the task's context.
func (d *Driver) watch(p *parts, t *task) {
	defer close(t.watched)
	var fault error
	defer func() {
		if fault != nil { // whoever waits for the task must not wait for ever
			t.finish(&drivers.ExitResult{ExitCode: -1, Err: fault}, time.Now())
		}
	}()
	defer guard.Catch(d.logger, "watch", &fault)
	final, err := p.awaitEnd(t)
	if t.ctx.Err() != nil {
		return
	}
	if err != nil {
		d.logger.Error("task ended unseen", "task_id", t.cfg.ID, "container_id", t.state.ContainerID, "error", err)
		t.drainLogs()
		d.closeAccount(p, t, time.Now())
		t.finish(&drivers.ExitResult{ExitCode: -1, Err: err}, time.Now())
		return // who knows what still runs there: the GPUs stay the task's until it is destroyed
	}
	p.noteEnd(t)
	t.drainLogs()
	d.awaitOOM(t, final)
	r, at := d.judgeExit(t, final)
	d.logger.Info("task ended", "task_id", t.cfg.ID, "container_id", t.state.ContainerID, "exit_code", r.ExitCode, "oom_killed", r.OOMKilled)
	d.closeAccount(p, t, at)
	d.gpus.Release(t.cfg.ID)
	t.finish(r, at)
	d.reportLeftovers(p, t)
}

// noteEnd has the container removed even if DestroyTask never comes.
func (p *parts) noteEnd(t *task) {
	if p.config.GC.Container {
		p.state.End(t.state.ContainerID)
	}
}

// drainLogs waits, not for ever, until the ended task's output is delivered.
func (t *task) drainLogs() {
	logs := t.shipping()
	if logs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, drainLimit)
	defer cancel()
	logs.Drain(ctx)
}

// awaitEnd returns the container's state after its end. A broken connection is
// not an end (task-driver WT-6): only an inspected one is, or a container that
// is gone, or an engine that was away for longer than engine_down_grace.
func (p *parts) awaitEnd(t *task) (*container.State, error) {
	if t.isReconnecting() {
		if _, err := p.inspectOnceBack(t); err != nil {
			return nil, err
		}
		t.setReconnecting(false)
	}
	cuts := reconnects()
	for {
		_, waitErr := p.engine.Wait(t.ctx, t.state.ContainerID)
		found, err := p.inspectOnceBack(t)
		if err != nil {
			return nil, err
		}
		if found.State != nil && !found.State.Running {
			return found.State, nil
		}
		if waitErr == nil || !engineAway(waitErr) {
			cuts = reconnects()
		}
		if err := cuts.pause(t.ctx); err != nil {
			return nil, err
		}
	}
}

// inspectOnceBack inspects the task's container as soon as the engine answers. Each
// outage has the whole of engine_down_grace, however many there were before.
func (p *parts) inspectOnceBack(t *task) (container.InspectResponse, error) {
	id, begun := t.state.ContainerID, time.Now()
	tries := reconnects()
	for {
		found, err := p.engine.Inspect(t.ctx, id)
		down := time.Since(begun)
		switch {
		case t.ctx.Err() != nil:
			return found, t.ctx.Err()
		case err == nil:
			return found, nil
		case errdefs.IsNotFound(err):
			return found, fmt.Errorf("container %q is gone: somebody removed it while the task ran", id)
		case down > p.config.EngineDownGrace:
			return found, fmt.Errorf("the Docker Engine has not answered for %s (engine_down_grace): %w; the container may still run", down.Round(time.Second), err)
		}
		if err := tries.pause(t.ctx); err != nil {
			return found, err
		}
	}
}

// judgeExit makes Nomad's result of a container's final state. Exit code 137
// alone never means out of memory: any SIGKILL gives it (task-driver WT-3).
func (d *Driver) judgeExit(t *task, s *container.State) (*drivers.ExitResult, time.Time) {
	r := &drivers.ExitResult{ExitCode: s.ExitCode, OOMKilled: s.OOMKilled}
	oomSeen := t.oomSeen()
	if oomSeen && s.ExitCode != 0 {
		r.OOMKilled = true
	}
	if oomSeen && s.ExitCode == 0 && !s.OOMKilled {
		d.events.Emit(t.cfg, "A child process was killed for lack of memory; the task itself ended with exit code 0", nil)
	}
	switch {
	case r.OOMKilled:
		r.Err = errors.New("OOM Killed")
	case s.ExitCode != 0:
		r.Err = fmt.Errorf("Docker container exited with non-zero exit code: %d", s.ExitCode) // users match on the built-in driver's text
	}
	return r, parseTime(s.FinishedAt)
}

// parseTime reads an engine timestamp; the zero time when there is none.
func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() <= 1 {
		return time.Time{}
	}
	return at
}
