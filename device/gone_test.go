// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"
)

// looks are the looks of a fingerprint stream that a test takes itself.
type looks struct {
	*fingerprinter
	t    *testing.T
	next time.Duration // the pause after the last look
}

func newLooks(t *testing.T, p *Plugin) *looks {
	t.Helper()
	h, s, err := p.start()
	must.NoError(t, err)
	return &looks{fingerprinter: &fingerprinter{plugin: p, host: h, settings: s, begin: time.Now()}, t: t}
}

// until looks until the offer is as wished.
func (l *looks) until(wished func([]*device.DeviceGroup) bool) map[string]*device.Device {
	l.t.Helper()
	within(l.t, func() bool {
		l.out = make(chan *device.FingerprintResponse, 1) // has room for the look's message
		var ok bool
		l.next, ok = l.look(l.t.Context())
		must.True(l.t, ok)
		return wished(l.last.devices)
	})
	return devices(l.last.devices)
}

// TestGone: what a task may hold stays listed for as long as it takes Nomad's
// servers to hear of it; that is what was reserved, and what was there at the
// start, when tasks may have gone on from before (cases DEV-10).
func TestGone(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	p := testPlugin(t, sim, func(c *Config) { c.FingerprintPeriod = "1h" })
	log := recordLog(p)
	l := newLooks(t, p)
	l.until(withUsable(12))
	split, held := -1, ""
	for _, gpu := range p.host.Inventory(t.Context()).GPUs {
		if len(gpu.MIGDevices) == 7 {
			split, held = gpu.Index, gpu.MIGDevices[2].UUID
		}
	}
	const warning = "that tasks may hold are not there any more"

	must.NoError(t, sim.Set(split, map[string]string{"mig": "2g.10gb,1g.5gb,1g.5gb"}))
	all := l.until(withUsable(8))
	must.MapLen(t, 15, all)
	must.Eq(t, "not there any more", all[held].HealthDesc)
	must.Less(t, goneFor+time.Second, l.next) // not the period
	must.SliceLen(t, 1, log.lines(warning))
	must.StrContains(t, log.lines(warning)[0], held)
	must.StrContains(t, log.lines(warning)[0], "[WARN]")

	// The clock goes on to the end of their time.
	must.MapContainsKey(t, l.until(withUsable(8)), held)
	for _, i := range p.lastOffer().byID {
		if i.gone() {
			i.goneSince = i.goneSince.Add(-goneFor)
		}
	}
	all = l.until(withUsable(8))
	must.MapLen(t, 8, all)
	must.SliceLen(t, 1, log.lines(warning))

	// Of those that came later, only one is held.
	var later []string
	for _, mig := range p.host.Inventory(t.Context()).GPUs[split].MIGDevices {
		later = append(later, mig.UUID)
	}
	_, err := p.Reserve(later[:1])
	must.NoError(t, err)
	must.NoError(t, sim.Set(split, map[string]string{"mig": "3g.20gb"}))
	all = l.until(withUsable(6))
	must.Eq(t, "not there any more", all[later[0]].HealthDesc)
	must.MapNotContainsKeys(t, all, later[1:])
	must.SliceLen(t, 2, log.lines(warning))
}

// TestGone_laterStream: a stream that follows another knows what has vanished
// meanwhile, and what comes back is offered as before (cases DEV-10).
func TestGone_laterStream(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	newLooks(t, p).until(withUsable(4))
	must.NoError(t, sim.Unload())
	l := newLooks(t, p)
	all := l.until(withUsable(0))
	must.MapLen(t, 4, all)
	must.Eq(t, "not there any more", all[k80second].HealthDesc)
	must.NoError(t, sim.Load())
	must.Eq(t, "", l.until(withUsable(4))[k80second].HealthDesc)
}
