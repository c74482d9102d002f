// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
)

// StopTask asks a task to end and kills it after timeout. An empty signal means
// the image's own stop signal. A task that does not run is stopped already.
func (d *Driver) StopTask(taskID string, timeout time.Duration, signal string) error {
	t, err := d.tasks.Get(taskID)
	if err != nil {
		return err
	}
	p, err := d.ready()
	if err != nil {
		return err
	}
	if t.exited() {
		return nil
	}
	p.noteEnd(t)
	if signal == "" {
		return p.stop(t, timeout)
	}
	return p.stopWith(t, signal, timeout)
}

// stop lets the engine send the stop signal and, after timeout, SIGKILL.
func (p *parts) stop(t *task, timeout time.Duration) error {
	t.wantEnd()
	err := p.engine.Stop(t.ctx, t.state.ContainerID, "", timeout)
	if err != nil && !errdefs.IsNotFound(err) && !t.exited() {
		return fmt.Errorf("Failed to stop container %q: %w", t.state.ContainerID, err) //nolint:staticcheck // the built-in driver's text
	}
	return nil
}

// stopWith sends the job's kill_signal, waits for the end, and after timeout
// lets the engine kill what is left (task-driver SP-3).
func (p *parts) stopWith(t *task, signal string, timeout time.Duration) error {
	name, err := parseSignal(signal)
	if err != nil {
		return err
	}
	if err := p.kill(t.ctx, t, name); err != nil {
		return err
	}
	left := time.NewTimer(timeout)
	defer left.Stop()
	select {
	case <-t.done:
		return nil
	case <-t.ctx.Done():
		return nil
	case <-left.C:
		return p.stop(t, 0)
	}
}

// kill signals a running container; one that has ended meanwhile is fine.
func (p *parts) kill(ctx context.Context, t *task, signal string) error {
	t.noteSignal(signal)
	err := p.engine.Kill(ctx, t.state.ContainerID, signal)
	if err == nil || errdefs.IsNotFound(err) || t.exited() {
		return nil
	}
	if s, inspectErr := p.engine.Inspect(ctx, t.state.ContainerID); inspectErr == nil && s.State != nil && !s.State.Running {
		return nil
	}
	return fmt.Errorf("failed to send %s to container %q: %w", signal, t.state.ContainerID, err)
}
