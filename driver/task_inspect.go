// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// InspectTask tells a task's state. While the engine is away it tells the last
// known one.
func (d *Driver) InspectTask(taskID string) (*drivers.TaskStatus, error) {
	t, err := d.tasks.Get(taskID)
	if err != nil {
		return nil, err
	}
	p, err := d.awake()
	if err != nil {
		return nil, err
	}
	status := t.lastKnown()
	if p.engineErr != nil {
		return status, nil
	}
	found, err := p.engine.Inspect(t.ctx, t.state.ContainerID)
	switch {
	case err == nil && found.ContainerJSONBase != nil:
		describe(status, found.State)
	case errdefs.IsNotFound(err):
		status.State = drivers.TaskStateExited
	case err != nil && !engineAway(err):
		return nil, fmt.Errorf("failed to inspect container %q: %w", t.state.ContainerID, err)
	}
	return status, nil
}

// lastKnown is what we know without the engine.
func (t *task) lastKnown() *drivers.TaskStatus {
	result, completed := t.exitResult()
	status := &drivers.TaskStatus{
		ID: t.cfg.ID, Name: t.cfg.Name, State: drivers.TaskStateRunning,
		StartedAt: t.state.startedAt(), CompletedAt: completed, ExitResult: result,
		DriverAttributes: map[string]string{"container_id": t.state.ContainerID},
		NetworkOverride:  t.state.network(),
	}
	if result != nil {
		status.State = drivers.TaskStateExited
	}
	if t.isReconnecting() {
		status.State = drivers.TaskStateUnknown
		status.DriverAttributes["state"] = "reconnecting"
	}
	return status
}

// describe lays the engine's view over a status.
func describe(status *drivers.TaskStatus, s *container.State) {
	if s == nil {
		return
	}
	if at := parseTime(s.StartedAt); !at.IsZero() {
		status.StartedAt = at
	}
	switch {
	case s.Running:
		status.State = drivers.TaskStateRunning
	case s.Status == container.StateExited || s.Status == container.StateDead || s.Status == container.StateRemoving:
		status.State = drivers.TaskStateExited
		if at := parseTime(s.FinishedAt); !at.IsZero() {
			status.CompletedAt = at
		}
		if status.ExitResult == nil {
			status.ExitResult = &drivers.ExitResult{ExitCode: s.ExitCode, OOMKilled: s.OOMKilled}
		}
	default:
		status.State = drivers.TaskStateUnknown
	}
}
