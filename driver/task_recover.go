// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"
)

const (
	// recoverLimit bounds a recovery: agents start up with it, one task after the
	// other (task-driver PL-14).
	recoverLimit = 5 * time.Second
	// recoverGlance is the limit of those that follow one that had no answer, within
	// silenceFor: a hundred tasks would else hold up an agent for minutes.
	recoverGlance = 100 * time.Millisecond
	silenceFor    = 30 * time.Second
)

// RecoverTask takes a task up again after a restart of the plugin. A known task
// stays as it is. A container that is gone is an error; one that has exited is
// not, and its exit code is reported. When the engine does not answer, or cannot be
// asked yet, the task counts as running until it does (task-driver RC-4).
func (d *Driver) RecoverTask(h *drivers.TaskHandle) error {
	state, err := decodeHandle(h)
	if err != nil {
		return err
	}
	if _, err := d.tasks.Get(h.Config.ID); err == nil {
		return nil
	}
	p, err := d.awake()
	if err != nil {
		return err
	}
	if err := d.tasks.Reserve(h.Config.ID); err != nil {
		return err
	}
	defer d.tasks.Release(h.Config.ID)
	t := newTask(d.ctx, h.Config.Copy(), state)
	if p.engineErr != nil {
		d.takeUpLater(t, p.engineErr)
		return nil
	}
	found, err := p.inspectForRecovery(d.ctx, state.ContainerID)
	away := engineAway(err)
	switch {
	case errdefs.IsNotFound(err):
		return fmt.Errorf("failed to inspect container for id %q: it was removed while nobody looked after it: %w", state.ContainerID, err)
	case err != nil && !away:
		return fmt.Errorf("failed to inspect container for id %q: %w", state.ContainerID, err)
	}
	if !away && found.ContainerJSONBase != nil && found.Image != "" {
		state.ImageID = found.Image
	}
	t.setReconnecting(away)
	d.takeUp(p, t)
	return nil
}

// inspectForRecovery waits for the engine, but not as long again for one that has just
// been silent.
func (p *parts) inspectForRecovery(ctx context.Context, id string) (container.InspectResponse, error) {
	p.mu.Lock()
	limit := recoverLimit
	if !p.silent.IsZero() && time.Since(p.silent) < silenceFor {
		limit = recoverGlance
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, err := p.engine.Inspect(ctx, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = time.Time{}
	if ctx.Err() != nil {
		p.silent = time.Now()
	}
	return found, err
}

// takeUp puts a recovered task into the tables and starts what belongs to it.
func (d *Driver) takeUp(p *parts, t *task) {
	cfg, state := t.cfg, t.state
	d.noteNode(cfg)
	p.images.Adopt(state.ImageID, cfg.ID)
	d.gpus.Adopt(cfg, state.GPUs)
	if spec := cfg.NetworkIsolation; spec != nil && spec.Labels[sandboxLabel] != "" {
		p.claimPause(spec.Labels[sandboxLabel])
	}
	logs, err := p.logs.Ship(cfg, state, nil)
	if err != nil {
		// A healthy container is worth more than its logs (task-driver RC-3).
		d.logger.Error("log collection did not start again", "task_id", cfg.ID, "error", err)
		d.events.Emit(cfg, fmt.Sprintf("Log collection did not start again: %v", err), nil)
	}
	t.setShipping(logs)
	d.logger.Info("task recovered", "task_id", cfg.ID, "container_id", state.ContainerID, "engine_away", t.isReconnecting())
	d.look(p, t)
}

// takeUpLater takes a task up when there is an engine client: certificates that come
// later must not cost a task its container (task-driver FP-3, RC-4). The fingerprint
// tries to make one.
func (d *Driver) takeUpLater(t *task, why error) {
	d.logger.Warn("task is taken up as soon as the engine can be asked", "task_id", t.cfg.ID, "container_id", t.state.ContainerID, "reason", why)
	t.setReconnecting(true)
	d.noteNode(t.cfg)
	d.gpus.Adopt(t.cfg, t.state.GPUs)
	d.tasks.Put(t)
	d.watchers.Go(func() {
		defer d.guard("taking up a task")
		tries := reconnects()
		for {
			if tries.pause(t.ctx) != nil {
				return // the task is given up
			}
			if p, err := d.ready(); err == nil {
				d.takeUp(p, t)
				if t.ctx.Err() != nil { // given up meanwhile
					d.forget(p, t)
				}
				return
			}
		}
	})
}
