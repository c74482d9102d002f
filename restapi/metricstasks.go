// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

func (a *api) allocations() []Allocation {
	if a.cfg.Allocations == nil {
		return nil
	}
	return a.cfg.Allocations.Allocations()
}

func (a *api) refusals() ([]Refusal, uint64) {
	if a.cfg.Refusals == nil {
		return nil, 0
	}
	return a.cfg.Refusals.Refusals()
}

// allocations sends who holds what. A MIG device names its GPU as its parent,
// so that readings of the GPU can be joined either way.
func (s *scrape) allocations(inv *gpuhost.Inventory, held []Allocation) {
	parents := parentUUIDs(inv)
	sent := map[Allocation]bool{}
	for _, a := range held {
		a.Since = time.Time{} // no label
		if sent[a] {
			continue
		}
		sent[a] = true
		s.gauge(descAllocation, 1, a.UUID, parents[a.UUID], a.Share, a.Namespace, a.Job, a.Group, a.Task, a.AllocID, a.Container)
	}
}

// parentUUIDs maps each GPU to itself and each MIG device to its GPU.
func parentUUIDs(inv *gpuhost.Inventory) map[string]string {
	parents := map[string]string{}
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		parents[g.UUID] = g.UUID
		for _, m := range g.MIGDevices {
			parents[m.UUID] = g.UUID
		}
	}
	return parents
}

// taskKey is one task on one GPU; without a task the processes outside of tasks.
type taskKey struct{ uuid, alloc, task string }

// processes sends the GPU memory of each task's processes.
func (s *scrape) processes(readings *gpuhost.Readings, held []Allocation) {
	byContainer := map[string]*Allocation{}
	for i := range held {
		byContainer[held[i].Container] = &held[i]
	}
	memory := map[taskKey]uint64{}
	for _, r := range readings.GPUs {
		for _, p := range r.Processes {
			if p.MemoryUsedBytes == nil {
				continue
			}
			key := taskKey{uuid: r.UUID}
			if a := byContainer[containerOf(p.PID)]; a != nil {
				key.alloc, key.task = a.AllocID, a.Task
			}
			memory[key] += *p.MemoryUsedBytes
		}
	}
	for key, bytes := range memory {
		s.gauge(descProcessMemory, float64(bytes), key.uuid, key.alloc, key.task)
	}
}

// usage sends the sums of namespaces.
func (s *scrape) usage() {
	if s.api.cfg.Usage == nil {
		return
	}
	for _, u := range s.api.cfg.Usage.Usage() {
		s.counter(descGPUSeconds, u.GPUSeconds, u.Namespace)
		s.counter(descEnergy, u.EnergyJoules, u.Namespace)
		s.counter(descEnded, float64(u.Tasks), u.Namespace)
	}
}

// ContainerMemory is the memory that a container's processes have on a GPU; nil
// when a process of it does not tell.
func ContainerMemory(container string, r *gpuhost.Reading) *uint64 {
	var sum uint64
	for _, p := range r.Processes {
		if container == "" || containerOf(p.PID) != container {
			continue
		}
		if p.MemoryUsedBytes == nil {
			return nil
		}
		sum += *p.MemoryUsedBytes
	}
	return &sum
}

// containerID is the engine's id in a cgroup path, whatever the cgroup version,
// driver or parent.
var containerID = regexp.MustCompile(`[/-]([0-9a-f]{64})(?:\.scope)?(?:/|\n|$)`)

// containerOf is the container a process runs in, empty when in none or gone.
func containerOf(pid int) string {
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	if m := containerID.FindSubmatch(cgroups); m != nil {
		return string(m[1])
	}
	return ""
}
