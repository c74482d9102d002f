// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// throttledIdle is NVML's bit for clocks that are low because there is nothing to
// do, which worries nobody.
const throttledIdle = 1

// pageGPU is one GPU on the status page.
type pageGPU struct {
	Index, Minor int
	UUID         string
	Model        string
	BusID        string
	Health       string // empty: healthy
	Bars         []bar
	Throttled    string // why the clocks are held down; empty when they are not
	Tasks        []pageTask
	MIG          []pageMIG
	Processes    []pageProcess
}

// pageMIG is one MIG device of a GPU.
type pageMIG struct {
	UUID, Profile string
	Memory        bar
	Tasks         []pageTask
}

// pageTask is one task that holds a GPU, a MIG device or a share.
type pageTask struct {
	Name   string // namespace/job/group/task
	Share  string // empty: the whole
	Detail string // allocation, container, since when
}

// pageProcess is one process that computes on a GPU.
type pageProcess struct {
	PID          int
	Name, Memory string
}

func newPageGPU(g *gpuhost.GPU, r *gpuhost.Reading, held []Allocation) pageGPU {
	if r == nil {
		r = &gpuhost.Reading{}
	}
	p := pageGPU{
		Index: g.Index, Minor: g.Minor, UUID: g.UUID, Model: text(g.Model), BusID: g.PCIBusID, Health: g.Unhealthy,
		Tasks: holders(held, g.UUID), Bars: gpuBars(g, r), Processes: pageProcesses(r.Processes),
	}
	if p.Health == "" && r.Err != nil {
		p.Health = r.Err.Error()
	}
	if r.ThrottleReasons != nil {
		p.Throttled = strings.Join(gpuhost.ThrottleNames(*r.ThrottleReasons&^throttledIdle), ", ")
	}
	for i := range g.MIGDevices {
		p.MIG = append(p.MIG, newPageMIG(&g.MIGDevices[i], r, held))
	}
	return p
}

func newPageMIG(m *gpuhost.MIGDevice, r *gpuhost.Reading, held []Allocation) pageMIG {
	var used *uint64
	for i := range r.MIG {
		if r.MIG[i].UUID == m.UUID {
			used = r.MIG[i].MemoryUsedBytes
		}
	}
	return pageMIG{UUID: m.UUID, Profile: m.Profile, Memory: memoryBar(used, m.TotalBytes), Tasks: holders(held, m.UUID)}
}

// free says whether nobody holds the GPU or a part of it.
func (p *pageGPU) free() bool {
	held := len(p.Tasks)
	for _, m := range p.MIG {
		held += len(m.Tasks)
	}
	return held == 0
}

func holders(held []Allocation, uuid string) []pageTask {
	var out []pageTask
	for _, a := range held {
		if a.UUID == uuid {
			out = append(out, newPageTask(&a))
		}
	}
	return out
}

func newPageTask(a *Allocation) pageTask {
	detail := []string{"allocation " + short(a.AllocID, 8)}
	if a.Container != "" {
		detail = append(detail, "container "+short(a.Container, 12))
	}
	if !a.Since.IsZero() {
		detail = append(detail, "for "+time.Since(a.Since).Round(time.Second).String())
	}
	return pageTask{
		Name:   fmt.Sprintf("%s/%s/%s/%s", a.Namespace, a.Job, a.Group, a.Task),
		Share:  a.Share,
		Detail: strings.Join(detail, " · "),
	}
}

// short cuts an id as Nomad's and docker's own tools do.
func short(id string, n int) string { return id[:min(len(id), n)] }

func pageProcesses(all []gpuhost.Process) []pageProcess {
	var out []pageProcess
	for _, p := range all {
		name := notAvailable
		if p.Name != "" {
			name = filepath.Base(p.Name)
		}
		out = append(out, pageProcess{PID: p.PID, Name: name, Memory: number(scaled(p.MemoryUsedBytes, mebi), " MiB")})
	}
	return out
}
