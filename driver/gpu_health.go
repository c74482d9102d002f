// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// gpuWatchPeriod is how often the GPUs of running tasks are looked at.
const gpuWatchPeriod = 5 * time.Second

// watchGPUs tells tasks that their GPU turned unhealthy, and the fingerprint streams
// that another driver was loaded, until ctx ends.
func (d *Driver) watchGPUs(ctx context.Context, p *parts) {
	changed, stop := p.host.Watch() // without it no XID event is waited for
	defer stop()
	tick := time.NewTicker(gpuWatchPeriod)
	defer tick.Stop()
	watch := newGPUWatch()
	for {
		select {
		case <-tick.C:
			d.checkGPUs(ctx, p, watch)
		case <-changed:
			d.checkGPUs(ctx, p, watch)
			if nvidiaFactsOf(p.host.Inventory(ctx)) != d.lastNVIDIA() {
				d.refresh.Now()
			}
		case <-ctx.Done():
			return
		}
	}
}

// unseenGrace is how long a GPU may be missing that nobody has seen since this
// process began: after a restart of the agent, NVML may take long to start.
const unseenGrace = time.Minute

// gpuWatch is what one watch remembers from look to look.
type gpuWatch struct {
	begun time.Time
	seen  map[string]bool   // UUIDs of GPUs and MIG devices that were listed
	told  map[string]string // task id and UUID to the reason that was told last
}

func newGPUWatch() *gpuWatch {
	return &gpuWatch{begun: time.Now(), seen: map[string]bool{}, told: map[string]string{}}
}

// reason says why a GPU or MIG device must not be used; empty if it is fine, or if
// it is too early to say.
func (w *gpuWatch) reason(inv *gpuhost.Inventory, uuid string) string {
	reason, listed := unhealthy(inv, uuid)
	w.seen[uuid] = w.seen[uuid] || listed
	if !w.seen[uuid] && time.Since(w.begun) < unseenGrace {
		return ""
	}
	return reason
}

// checkGPUs looks once. A reason is told once for each task and GPU.
func (d *Driver) checkGPUs(ctx context.Context, p *parts, watch *gpuWatch) {
	var watched []*task
	for _, t := range d.tasks.All() {
		if len(t.state.GPUs) > 0 && !t.exited() && t.state.OnUnhealthy != config.OnUnhealthyIgnore {
			watched = append(watched, t)
		}
	}
	if len(watched) == 0 {
		clear(watch.told)
		return
	}
	inv := p.host.Inventory(ctx)
	for _, t := range watched {
		for uuid := range devicesOf(t.state.GPUs) {
			reason := watch.reason(inv, uuid)
			key := t.cfg.ID + " " + uuid
			if reason == watch.told[key] {
				continue
			}
			watch.told[key] = reason
			if reason != "" {
				d.onUnhealthy(p, t, uuid, reason)
			}
		}
	}
}

// unhealthy says why a GPU or MIG device must not be used, empty if it is fine, and
// whether the host lists it.
func unhealthy(inv *gpuhost.Inventory, uuid string) (reason string, listed bool) {
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		if g.UUID == uuid {
			return g.Unhealthy, true
		}
		for _, m := range g.MIGDevices {
			if m.UUID == uuid {
				return g.Unhealthy, true
			}
		}
	}
	if inv.Reason != "" {
		return inv.Reason, false
	}
	return "it is not on this node any more", false
}

// onUnhealthy does what the job asked for.
func (d *Driver) onUnhealthy(p *parts, t *task, uuid, reason string) {
	d.logger.Warn("GPU of a running task is unhealthy", "task_id", t.cfg.ID, "gpu", uuid, "reason", reason)
	d.events.Emit(t.cfg, fmt.Sprintf("GPU %s is unhealthy: %s", uuid, reason), nil)
	if t.state.OnUnhealthy != config.OnUnhealthyFail {
		return
	}
	t.failWith(fmt.Errorf("GPU %s is unhealthy (%s) and gpu.on_unhealthy is \"fail\"", uuid, reason))
	go func() {
		defer d.guard("stop for an unhealthy GPU")
		if err := p.stop(t, unhealthyGrace); err != nil {
			d.logger.Error("task with an unhealthy GPU could not be stopped", "task_id", t.cfg.ID, "error", err)
		}
	}()
}

// unhealthyGrace is what a task gets to save its work when its GPU fails.
const unhealthyGrace = 10 * time.Second
