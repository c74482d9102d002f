// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// allocations are the task's holds on GPUs, MIG devices and shares.
func (t *task) allocations() []restapi.Allocation {
	var all []restapi.Allocation
	for _, id := range t.state.GPUs {
		uuid, share := splitShare(id)
		all = append(all, restapi.Allocation{
			UUID: uuid, Share: share,
			Namespace: t.cfg.Namespace, Job: t.cfg.JobName, Group: t.cfg.TaskGroupName, Task: t.cfg.Name,
			AllocID: t.cfg.AllocID, Container: t.state.ContainerID, Since: t.state.startedAt(),
		})
	}
	return all
}

// Readings are the host's shared sample, for the ledger.
func (p *parts) Readings(ctx context.Context) *gpuhost.Readings { return p.host.Readings(ctx) }

// accountLimit is how long the report of a task's end waits for a last sample.
const accountLimit = 500 * time.Millisecond

// closeAccount tells what a task used of its GPUs until its end, now if that is
// zero. A task without GPUs, or whose account is closed, has none (cases MET-09).
func (d *Driver) closeAccount(p *parts, t *task, ended time.Time) {
	if ended.IsZero() {
		ended = time.Now()
	}
	ctx, cancel := context.WithTimeout(p.ctx, accountLimit)
	defer cancel()
	if record := p.ledger.End(ctx, t.cfg.ID, ended); record != nil {
		d.events.Emit(t.cfg, record.String(), nil)
	}
}
