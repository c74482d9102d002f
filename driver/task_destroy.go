// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

// DestroyTask forgets a task and removes its container. With force a running
// task is killed, and for an id that is not known any container with it is
// removed before the error.
func (d *Driver) DestroyTask(taskID string, force bool) error {
	p, err := d.ready()
	if err != nil {
		return err
	}
	t, err := d.tasks.Get(taskID)
	if errors.Is(err, drivers.ErrTaskNotFound) && force {
		p.removeOrphans(d.ctx, taskID)
	}
	if err != nil {
		return err
	}
	if err := p.endForDestroy(t, force); err != nil {
		return err
	}
	waitFor(t.ctx, t.watched, leftoverLimit+leftoverPeriod) // an event about it would come to nobody later
	if p.config.GC.Container {
		p.removeForGood(t.ctx, t.state.ContainerID)
	}
	d.release(p, t)
	d.leaveVolume(p, t)
	return nil
}

// endForDestroy makes sure that the container does not run.
func (p *parts) endForDestroy(t *task, force bool) error {
	id := t.state.ContainerID
	found, err := p.engine.Inspect(t.ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil && t.exited() {
		return nil // an engine that is away removes the container later; the agent asks only once
	}
	if err != nil {
		return fmt.Errorf("failed to inspect container %q before its removal: %w", id, err)
	}
	if found.State == nil || !found.State.Running {
		waitDone(t)
		return nil
	}
	if !force {
		return errors.New("must call StopTask for the given task before Destroy or set force to true")
	}
	t.wantEnd()
	if err := p.engine.Stop(t.ctx, id, "", 0); err != nil && !errdefs.IsNotFound(err) {
		p.logger.Warn("could not stop container before its removal", "container_id", id, "error", err)
	}
	waitDone(t)
	return nil
}

// waitDone gives the watcher the time to deliver the last log lines.
func waitDone(t *task) { waitFor(t.ctx, t.done, drainLimit) }

// waitFor returns when the channel is closed, ctx ends or the time is over.
func waitFor(ctx context.Context, closed <-chan struct{}, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// release drops everything that is held for a task.
func (d *Driver) release(p *parts, t *task) {
	d.closeAccount(p, t, time.Now())
	t.finish(&drivers.ExitResult{ExitCode: -1, Err: errors.New("the task was destroyed before its end was seen")}, time.Now())
	t.cancel()
	if logs := t.shipping(); logs != nil {
		logs.Close()
	}
	d.forget(p, t)
}

// forget takes a task out of all tables.
func (d *Driver) forget(p *parts, t *task) {
	p.images.Release(t.state.ImageID, t.cfg.ID)
	d.gpus.Release(t.cfg.ID)
	d.tasks.Forget(t.cfg.ID)
}

// removeForGood removes a container now or, failing that, leaves it to the reaper
// (task-driver DT-4): also when this process dies before the engine has answered.
func (p *parts) removeForGood(ctx context.Context, id string) {
	p.state.Doom(id)
	err := p.engine.Remove(ctx, id)
	if err == nil || errdefs.IsNotFound(err) {
		p.state.Buried(id)
		return
	}
	p.logger.Error("could not remove container; will try again", "container_id", id, "error", err)
}

// removeOrphans removes whatever container was made for a task id.
func (p *parts) removeOrphans(ctx context.Context, taskID string) {
	found, err := p.engine.List(ctx, true, container.LabelTaskID+"="+taskID)
	if err != nil {
		p.logger.Warn("could not look for containers of an unknown task", "task_id", taskID, "error", err)
		return
	}
	for _, c := range found {
		p.removeForGood(ctx, c.ID)
	}
}
