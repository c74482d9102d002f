// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/device"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/guard"
)

// Stats streams the readings of all offered devices at the interval, the first
// at once. A host so slow that a sample takes more than half of the interval is
// asked half as often while it is (cases DEV-21). The stream ends with ctx.
func (p *Plugin) Stats(ctx context.Context, interval time.Duration) (<-chan *device.StatsResponse, error) {
	h, s, err := p.start()
	if err != nil {
		return nil, err
	}
	out := make(chan *device.StatsResponse)
	stats := &statStream{log: p.log, host: h, settings: s, pace: newPace(max(interval, minPeriod))}
	go func() {
		defer guard.Log(p.log, "statistics")
		stats.run(ctx, out)
	}()
	return out, nil
}

// statStream is one stream of statistics.
type statStream struct {
	log      hclog.Logger
	host     host
	settings *settings
	pace     pace
	told     bool // that the host is asked less often
	groups   statGroups
}

func (s *statStream) run(ctx context.Context, out chan<- *device.StatsResponse) {
	defer close(out)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		response := s.sample(ctx)
		timer.Reset(s.pace.interval)
		select {
		case <-ctx.Done():
			return
		case out <- response:
		}
	}
}

// sample makes one message and adapts the pace.
func (s *statStream) sample(ctx context.Context) *device.StatsResponse {
	readings := s.host.Readings(ctx)
	if s.pace.judge(readings) && !s.told {
		s.told = true
		s.log.Warn("statistics are collected less often while reading the GPUs takes long", "took", readings.Took, "interval", s.pace.interval)
	}
	return &device.StatsResponse{Groups: s.groups.of(readings, s.settings)}
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
