// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// firstWait: the first message comes within a second, even if it is empty.
	firstWait = 800 * time.Millisecond
	// shortPeriod is the time to the next look while the driver has not answered.
	shortPeriod = time.Second
	// repeatAfter is when the offer is sent once more, with one more attribute:
	// agents 1.3.6 to 1.4.2 lose what they get in their first seconds (cases DEV-20).
	repeatAfter = 70 * time.Second
	// attrSequence is that attribute.
	attrSequence = "fingerprint_seq"
)

// Fingerprint streams what the node offers: at once, and again whenever it has
// changed. The stream ends with ctx.
func (p *Plugin) Fingerprint(ctx context.Context) (<-chan *device.FingerprintResponse, error) {
	h, s, err := p.start()
	if err != nil {
		return nil, err
	}
	out := make(chan *device.FingerprintResponse)
	f := &fingerprinter{plugin: p, host: h, settings: s, begin: time.Now(), out: out}
	go func() {
		defer guard.Log(p.log, "fingerprint")
		f.run(ctx)
	}()
	return out, nil
}

// fingerprinter is one fingerprint stream.
type fingerprinter struct {
	plugin   *Plugin
	host     host
	settings *settings
	begin    time.Time
	out      chan<- *device.FingerprintResponse
	last     *offer
	repeated bool
	warned   string // the ids in ignored_gpu_ids that were warned about last
}

func (f *fingerprinter) run(ctx context.Context) {
	defer close(f.out)
	changed, stop := f.host.Watch()
	defer stop()
	for {
		looked := time.Now()
		next, ok := f.look(ctx)
		if !ok || !f.wait(ctx, changed, looked, next) {
			return
		}
	}
}

// look takes one look at the host and sends what has changed. It returns the time
// to the next look; false when ctx has ended.
func (f *fingerprinter) look(ctx context.Context) (time.Duration, bool) {
	inventory := f.inventory(ctx)
	f.checkIgnored(inventory)
	next := makeOffer(inventory, f.settings, mpsProblem(f.settings))
	if vanished := next.keepGone(f.plugin.lastOffer(), f.plugin.held, time.Now()); len(vanished) > 0 {
		f.plugin.log.Warn("GPUs or MIG devices that tasks may hold are not there any more", "ids", vanished)
	}
	next.finish(inventory, f.settings)
	if !inventory.Time.IsZero() {
		// A driver that is loaded and fails does not tell yet what tasks may hold.
		f.plugin.setLastOffer(next, inventory.Reason == "" || inventory.Driver.KernelVersion == "")
	}
	f.repeated = time.Since(f.begin) > repeatAfter
	if f.repeated {
		for _, group := range next.devices {
			group.Attributes[attrSequence] = structs.NewIntAttribute(2, "")
		}
	}
	if f.last == nil || !next.same(f.last) {
		select {
		case f.out <- device.NewFingerprint(next.devices...):
		case <-ctx.Done():
			return 0, false
		}
	}
	f.last = next
	return f.pause(inventory), true
}

// pause is the time to the next look: the period, or less when something is due
// before.
func (f *fingerprinter) pause(inventory *gpuhost.Inventory) time.Duration {
	pause := f.settings.period
	if inventory.Time.IsZero() {
		pause = min(pause, shortPeriod)
	}
	if gone := f.last.firstGone(); !gone.IsZero() {
		pause = min(pause, time.Until(gone.Add(goneFor))+time.Millisecond)
	}
	if !f.repeated {
		pause = min(pause, time.Until(f.begin.Add(repeatAfter))+time.Millisecond)
	}
	return pause
}

// inventory asks the host, the first time only for a moment.
func (f *fingerprinter) inventory(ctx context.Context) *gpuhost.Inventory {
	if f.last == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstWait)
		defer cancel()
	}
	return f.host.Inventory(ctx)
}

// wait waits for the next look: the period, or a change that the host tells,
// but not less than a second since the last look. False when ctx has ended.
func (f *fingerprinter) wait(ctx context.Context, changed <-chan struct{}, looked time.Time, next time.Duration) bool {
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-changed:
	}
	timer.Reset(time.Until(looked.Add(shortPeriod)))
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// checkIgnored warns about ids in ignored_gpu_ids that fit no GPU or too many
// (cases DEV-22), once for each state of things.
func (f *fingerprinter) checkIgnored(inventory *gpuhost.Inventory) {
	if len(inventory.GPUs) == 0 {
		return
	}
	none := unmatched(f.settings.IgnoredGPUIDs, inventory)
	_, ambiguous := matchIgnored(f.settings.IgnoredGPUIDs, inventory)
	problem := strings.Join(none, " ")
	if len(ambiguous) > 0 {
		problem += errors.Join(ambiguous...).Error()
	}
	if problem == f.warned {
		return
	}
	f.warned = problem
	if len(none) > 0 {
		f.plugin.log.Warn("ids in \"ignored_gpu_ids\" fit no GPU of this node", "ids", none, "known", allUUIDs(inventory))
	}
	for _, err := range ambiguous {
		f.plugin.log.Error("all GPUs that it fits are hidden", "error", err)
	}
}
