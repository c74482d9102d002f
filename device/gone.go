// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"maps"
	"slices"
	"time"
)

// goneFor is how long an id that has vanished stays listed as unhealthy. A Nomad
// client tells its servers what its devices are 5 to 10 s after a change, and
// again later if it reaches none; they would never hear of less.
const goneFor = 30 * time.Second

// goneText is the health of such an id.
const goneText = "not there any more"

// hold remembers that somebody may hold these ids.
func (p *Plugin) hold(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.reserved[id] = true
	}
}

// held says whether somebody may hold an id. Nomad does not tell of the end.
func (p *Plugin) held(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserved[id]
}

// lastOffer is the last offer of any stream; nil before the driver has answered.
func (p *Plugin) lastOffer() *offer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offered
}

// setLastOffer keeps a finished offer for the next look. What the first complete one
// has may be held: after a restart of agent or plugin, Nomad does not say what the
// tasks hold that went on.
func (p *Plugin) setLastOffer(o *offer, complete bool) {
	if complete && !p.begun.Swap(true) {
		p.hold(slices.Collect(maps.Keys(o.byID))...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offered = o
}

// keepGone adds ids of the last offer that somebody may hold and that are not
// there any more, as unhealthy: Nomad would lose sight of them without a word
// otherwise (cases DEV-10). It returns those that were there until now.
func (o *offer) keepGone(last *offer, held func(id string) bool, now time.Time) []string {
	if last == nil {
		return nil
	}
	var vanished []string
	for _, g := range last.groups {
		for _, i := range g.instances {
			_, hidden := o.ignored[i.uuid]
			if o.byID[i.id] != nil || hidden || !held(i.id) || i.gone() && now.Sub(i.goneSince) >= goneFor {
				continue
			}
			missing := *i
			if !i.gone() {
				missing.goneSince, missing.unhealthy = now, goneText
				vanished = append(vanished, i.id)
			}
			o.addTo(g.name, &missing)
		}
	}
	return vanished
}

// gone says whether the id is not there any more.
func (i *instance) gone() bool { return !i.goneSince.IsZero() }

// firstGone is when the first of the offer's ids that are gone was found missing;
// zero when none is.
func (o *offer) firstGone() time.Time {
	var first time.Time
	for _, i := range o.byID {
		if i.gone() && (first.IsZero() || i.goneSince.Before(first)) {
			first = i.goneSince
		}
	}
	return first
}
