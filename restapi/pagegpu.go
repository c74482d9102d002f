// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// pageGPU is one GPU on the status page.
type pageGPU struct {
	Index  int
	UUID   string
	Model  string
	BusID  string
	Health string // empty: healthy
	Bars   []bar
	Tasks  []Allocation
	MIG    []pageMIG
}

// pageMIG is one MIG device of a GPU.
type pageMIG struct {
	UUID, Profile string
	Tasks         []Allocation
}

// bar is one reading as part of a whole.
type bar struct {
	Label string
	Text  string
	Known bool
	// Percent of the whole; High is from where it should worry.
	Percent, High uint64
}

// hotCelsius is the full length of the bar for the temperature.
const hotCelsius = 100

func newPageGPU(g *gpuhost.GPU, r *gpuhost.Reading, held []Allocation) pageGPU {
	if r == nil {
		r = &gpuhost.Reading{}
	}
	p := pageGPU{
		Index: g.Index, UUID: g.UUID, Model: text(g.Model), BusID: g.PCIBusID, Health: g.Unhealthy,
		Tasks: holders(held, g.UUID),
		Bars: []bar{
			percentBar("Utilisation", r.GPUPercent),
			shareBar("Memory", scaled(r.MemoryUsedBytes, mebi), scaled(globalBytes(g), mebi), "MiB", 95),
			temperatureBar(r.TemperatureCelsius),
			shareBar("Power", scaled(r.PowerMilliwatts, kilo), scaled(g.PowerLimitMilliwatts, kilo), "W", 101),
		},
	}
	if p.Health == "" && r.Err != nil {
		p.Health = r.Err.Error()
	}
	for _, m := range g.MIGDevices {
		p.MIG = append(p.MIG, pageMIG{UUID: m.UUID, Profile: m.Profile, Tasks: holders(held, m.UUID)})
	}
	return p
}

func holders(held []Allocation, uuid string) []Allocation {
	var out []Allocation
	for _, a := range held {
		if a.UUID == uuid {
			out = append(out, a)
		}
	}
	return out
}

func percentBar(label string, v *uint64) bar {
	if v == nil {
		return bar{Label: label, Text: notAvailable}
	}
	return bar{Label: label, Text: fmt.Sprintf("%d %%", *v), Known: true, Percent: min(*v, 100), High: 101}
}

func temperatureBar(v *uint64) bar {
	b := percentBar("Temperature", v)
	if v != nil {
		b.Text = fmt.Sprintf("%d °C", *v)
		b.Percent, b.High = min(*v*100/hotCelsius, 100), 85
	}
	return b
}

// shareBar shows a part of a whole; high is the percentage that should worry.
func shareBar(label string, used, total *uint64, unit string, high uint64) bar {
	if used == nil || total == nil || *total == 0 {
		return bar{Label: label, Text: number(used, " "+unit)}
	}
	return bar{
		Label: label, Text: share(used, total, " "+unit), Known: true,
		Percent: min(*used*100 / *total, 100), High: high,
	}
}
