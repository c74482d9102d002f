// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

const (
	// leftoverLimit is how long processes may stay on a GPU after the end of
	// their task (cases DRV-28).
	leftoverLimit = 10 * time.Second
	// leftoverPeriod is the pause between two looks.
	leftoverPeriod = time.Second
)

// warnForeign tells a task that something computes on its GPU already, and
// remembers that it is not the task's.
func (s *starting) warnForeign() {
	whole := slices.DeleteFunc(slices.Clone(s.grant.Devices), func(d grantedDevice) bool { return d.Shared || len(d.GPU.MIGDevices) > 0 })
	if len(whole) == 0 {
		return
	}
	asked := time.Now()
	readings := s.p.host.ReadingsNow(s.ctx)
	if readings.Time.Before(asked) {
		return // it may show the task that had the GPU before
	}
	for _, d := range whole {
		if busy := processesOn(readings, d.GPU.UUID); len(busy) > 0 {
			for _, process := range busy {
				s.foreign = append(s.foreign, process.PID)
			}
			s.tell(fmt.Sprintf("GPU %s is in use by processes that are not this task's: %s", d.UUID, describeProcesses(busy)))
		}
	}
}

// reportLeftovers watches the GPUs of an ended task until nothing computes there
// any more, or says what does. What was there before the task is not its, and GPUs
// that another task has by then are its own business.
func (d *Driver) reportLeftovers(p *parts, t *task) {
	gpus := wholeGPUs(t.state.GPUs)
	if len(gpus) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, leftoverLimit)
	defer cancel()
	var left []string
	for {
		left = nil
		asked := time.Now()
		readings := p.host.ReadingsNow(ctx)
		known := !readings.Time.Before(asked) // else they may be of the time before the task
		for _, uuid := range gpus {
			busy := slices.DeleteFunc(processesOn(readings, uuid), func(p gpuhost.Process) bool { return slices.Contains(t.state.Foreign, p.PID) })
			if len(busy) > 0 && !d.gpus.holds(uuid) {
				left = append(left, fmt.Sprintf("GPU %s: %s", uuid, describeProcesses(busy)))
			}
		}
		if len(left) == 0 && known {
			return
		}
		select {
		case <-time.After(leftoverPeriod):
			continue
		case <-ctx.Done():
		}
		break
	}
	if p.ctx.Err() != nil || len(left) == 0 {
		return
	}
	message := "Processes are left on the GPU after the end of the task: " + strings.Join(left, "; ")
	d.logger.Warn("processes are left on a GPU", "task_id", t.cfg.ID, "left", left)
	d.events.Emit(t.cfg, message, nil)
}

// wholeGPUs are the reserved GPUs that no other task shares.
func wholeGPUs(ids []string) []string {
	var whole []string
	for _, id := range ids {
		if uuid, share := splitShare(id); share == "" && strings.HasPrefix(uuid, "GPU-") {
			whole = append(whole, uuid)
		}
	}
	return whole
}

// processesOn are the compute processes of a GPU, by their id.
func processesOn(r *gpuhost.Readings, uuid string) []gpuhost.Process {
	for _, reading := range r.GPUs {
		if reading.UUID == uuid {
			processes := slices.Clone(reading.Processes)
			slices.SortFunc(processes, func(a, b gpuhost.Process) int { return a.PID - b.PID })
			return processes
		}
	}
	return nil
}

// describeProcesses names processes for people.
func describeProcesses(all []gpuhost.Process) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = fmt.Sprintf("pid %d", p.PID)
		if p.MemoryUsedBytes != nil {
			words[i] += fmt.Sprintf(" (%d MiB)", *p.MemoryUsedBytes>>20)
		}
	}
	return strings.Join(words, ", ")
}
