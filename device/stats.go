// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Stats streams the readings of all offered devices at the interval, the first
// at once. A host so slow that a sample takes more than half of the interval is
// asked half as often (cases DEV-21). The stream ends with ctx.
func (p *Plugin) Stats(ctx context.Context, interval time.Duration) (<-chan *device.StatsResponse, error) {
	h, s, err := p.start()
	if err != nil {
		return nil, err
	}
	out := make(chan *device.StatsResponse)
	go p.stats(ctx, out, h, s, max(interval, minPeriod))
	return out, nil
}

func (p *Plugin) stats(ctx context.Context, out chan<- *device.StatsResponse, h host, s *settings, interval time.Duration) {
	defer close(out)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var groups statGroups
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		readings := h.Readings(ctx)
		if took := time.Since(begin); took > interval/2 {
			interval *= 2
			p.log.Warn("statistics are collected less often, as reading the GPUs takes long", "took", took, "interval", interval)
		}
		timer.Reset(interval)
		select {
		case <-ctx.Done():
			return
		case out <- &device.StatsResponse{Groups: groups.of(readings, s)}:
		}
	}
}

// statGroups knows how the devices of an inventory are grouped, which it works
// out once: an inventory outlives many samples.
type statGroups struct {
	inventory *gpuhost.Inventory
	offer     *offer
}

// of gives the readings of all offered devices, grouped as they are offered.
func (k *statGroups) of(readings *gpuhost.Readings, s *settings) []*device.DeviceGroupStats {
	if readings.Inventory == nil {
		return nil
	}
	if k.inventory != readings.Inventory {
		k.inventory, k.offer = readings.Inventory, makeOffer(readings.Inventory, s, "")
	}
	groups := make([]*device.DeviceGroupStats, 0, len(k.offer.groups))
	for _, g := range k.offer.groups {
		stats := &device.DeviceGroupStats{
			Vendor: vendor, Type: deviceType, Name: g.name,
			InstanceStats: make(map[string]*device.DeviceStats, len(g.instances)),
		}
		for _, i := range g.instances {
			at := slices.IndexFunc(readings.GPUs, func(r gpuhost.Reading) bool { return r.UUID == i.gpu.UUID })
			if at >= 0 {
				stats.InstanceStats[i.id] = instanceStats(i, &readings.GPUs[at], readings.Time)
			}
		}
		groups = append(groups, stats)
	}
	return groups
}
