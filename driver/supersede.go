// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// supersede gives up earlier starts of the task that is about to start. An agent
// that died in the middle of StartTask asks again under another id and never
// mentions the first one, which would hold its GPU, its image and its log for
// ever. The new start replaces the container. finish lets the logs go, which is
// to be done last: a pipe that nobody holds tells Nomad's collector that its task
// has ended.
func (d *Driver) supersede(p *parts, cfg *drivers.TaskConfig) (finish func()) {
	var given []*task
	for _, t := range d.tasks.All() {
		if t.cfg.AllocID != cfg.AllocID || t.cfg.Name != cfg.Name || t.cfg.ID == cfg.ID {
			continue
		}
		d.logger.Info("an earlier start of the task is given up", "task_id", t.cfg.ID, "by", cfg.ID, "container_id", t.state.ContainerID)
		t.finish(&drivers.ExitResult{ExitCode: -1, Err: errors.New("the task was started again before its end was seen")}, time.Now())
		t.cancel()
		p.ledger.End(d.ctx, t.cfg.ID, time.Now())
		d.forget(p, t)
		given = append(given, t)
	}
	return func() {
		for _, t := range given {
			if logs := t.shipping(); logs != nil {
				logs.Close()
			}
		}
	}
}
