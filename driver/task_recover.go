// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// recoverLimit bounds a recovery: agents start up with it (task-driver PL-14).
const recoverLimit = 5 * time.Second

// RecoverTask takes a task up again after a restart of the plugin. A known task
// stays as it is. A container that is gone is an error; one that has exited is
// not, and its exit code is reported. When the engine does not answer the task
// counts as running until it does (task-driver RC-4).
func (d *Driver) RecoverTask(h *drivers.TaskHandle) error {
	state, err := decodeHandle(h)
	if err != nil {
		return err
	}
	if _, err := d.tasks.Get(h.Config.ID); err == nil {
		return nil
	}
	p, err := d.ready()
	if err != nil {
		return err
	}
	if err := d.tasks.Reserve(h.Config.ID); err != nil {
		return err
	}
	defer d.tasks.Release(h.Config.ID)

	ctx, cancel := context.WithTimeout(d.ctx, recoverLimit)
	defer cancel()
	found, err := p.engine.Inspect(ctx, state.ContainerID)
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
	return d.takeUp(p, h.Config.Copy(), state, away)
}

// takeUp puts a recovered task into the tables and starts what belongs to it.
func (d *Driver) takeUp(p *parts, cfg *drivers.TaskConfig, state *taskState, away bool) error {
	d.noteNode(cfg)
	t := newTask(d.ctx, cfg, state)
	t.setReconnecting(away)
	p.images.Adopt(state.ImageID, cfg.ID)
	d.gpus.Adopt(cfg, state.GPUs)
	if spec := cfg.NetworkIsolation; spec != nil && spec.Labels[sandboxLabel] != "" {
		p.claimPause(spec.Labels[sandboxLabel])
	}
	var err error
	if t.logs, err = p.logs.Ship(cfg, state, nil); err != nil {
		// A healthy container is worth more than its logs (task-driver RC-3).
		d.logger.Error("log collection did not start again", "task_id", cfg.ID, "error", err)
		d.events.Emit(cfg, fmt.Sprintf("Log collection did not start again: %v", err), nil)
	}
	d.logger.Info("task recovered", "task_id", cfg.ID, "container_id", state.ContainerID, "engine_away", away)
	d.look(p, t)
	return nil
}
