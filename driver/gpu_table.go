// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

// gpuTable knows which live task holds which GPU, so that no GPU is given to two
// tasks even if the scheduler errs (cases DRV-20). Safe for concurrent use.
type gpuTable struct {
	mu   sync.Mutex // guards everything below
	held map[string]holding
}

// holding is what one task holds.
type holding struct {
	alloc, task string
	// devices maps UUIDs to whether only a share of the device is held.
	devices map[string]bool
}

func newGPUTable() *gpuTable { return &gpuTable{held: map[string]holding{}} }

// Claim gives devices to a task or tells who has one of them. A task and its own
// restart never stand in each other's way.
func (t *gpuTable) Claim(cfg *drivers.TaskConfig, devices []grantedDevice) error {
	if len(devices) == 0 {
		return nil
	}
	mine := holding{alloc: cfg.AllocID, task: cfg.Name, devices: map[string]bool{}}
	for _, d := range devices {
		mine.devices[d.UUID] = d.Shared
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.held {
		if err := mine.against(other); err != nil {
			return err
		}
	}
	t.held[cfg.ID] = mine
	return nil
}

// against reports a device that two holdings cannot both have.
func (h holding) against(other holding) error {
	if h.alloc == other.alloc && h.task == other.task {
		return nil
	}
	for uuid, shared := range h.devices {
		if otherShared, held := other.devices[uuid]; held && (!shared || !otherShared) {
			return gpuTrouble("%q is in use by task %q of allocation %s; wait for its end or stop it", uuid, other.task, other.alloc)
		}
	}
	return nil
}

// Adopt notes what a recovered task holds, whoever else claims it.
func (t *gpuTable) Adopt(cfg *drivers.TaskConfig, ids []string) {
	if len(ids) == 0 {
		return
	}
	h := holding{alloc: cfg.AllocID, task: cfg.Name, devices: devicesOf(ids)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[cfg.ID] = h
}

// devicesOf maps the UUIDs of reserved ids to whether they are shares.
func devicesOf(ids []string) map[string]bool {
	devices := map[string]bool{}
	for _, id := range ids {
		uuid, share := splitShare(id)
		whole, seen := devices[uuid]
		devices[uuid] = share != "" && (!seen || whole)
	}
	return devices
}

// Release takes a task's devices back; twice is harmless.
func (t *gpuTable) Release(taskID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, taskID)
}

// knows says whether a task holds devices by the table.
func (t *gpuTable) knows(taskID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.held[taskID]
	return ok
}

// holds says whether any task holds a device.
func (t *gpuTable) holds(uuid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.held {
		if _, held := h.devices[uuid]; held {
			return true
		}
	}
	return false
}

// checkRunning looks for live containers that hold a device of the grant and
// that the table does not know: those of tasks that are not recovered yet or of
// another agent on this host. One that somebody runs from an image that was made of
// a task's container has the task's labels, but holds nothing.
func (d *Driver) checkRunning(ctx context.Context, p *parts, cfg *drivers.TaskConfig, devices []grantedDevice) error {
	if len(devices) == 0 {
		return nil
	}
	running, err := p.engine.List(ctx, false, container.LabelGPUs, labelRoot)
	if err != nil {
		return recoverable(fmt.Errorf("cannot see which containers hold GPUs: %w", err))
	}
	mine := holding{alloc: cfg.AllocID, task: cfg.Name, devices: map[string]bool{}}
	for _, dev := range devices {
		mine.devices[dev.UUID] = dev.Shared
	}
	for _, c := range running {
		if d.gpus.knows(c.Labels[container.LabelTaskID]) || c.Labels[labelRoot] != p.config.GPU.DriverRoot {
			continue
		}
		if !ownName(c) || d.runsWithoutGPU(c.ID) {
			continue
		}
		if err := mine.against(labelledHolding(c)); err != nil {
			return err
		}
	}
	return nil
}

// runsWithoutGPU says whether a container is that of a task which reserved no GPU.
func (d *Driver) runsWithoutGPU(id string) bool {
	return slices.ContainsFunc(d.tasks.All(), func(t *task) bool { return t.state.ContainerID == id && len(t.state.GPUs) == 0 })
}

// Labels of tasks with GPUs, beside those of package container.
const (
	// labelShares lists the reserved ids of a task that has shares of GPUs.
	labelShares = container.LabelPrefix + "gpu_shares"
	// labelRoot is the driver root, which tells simulated hosts of one machine
	// apart: their GPUs may have equal UUIDs.
	labelRoot = container.LabelPrefix + "driver_root"
)

// labelledHolding reads a holding from a container's labels.
func labelledHolding(c engineapi.Summary) holding {
	ids := c.Labels[labelShares]
	if ids == "" {
		ids = c.Labels[container.LabelGPUs]
	}
	return holding{
		alloc: c.Labels[container.LabelAllocID], task: c.Labels[container.LabelTaskName],
		devices: devicesOf(strings.Split(ids, ",")),
	}
}
