// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// account is an open one.
type account struct {
	held []restapi.Allocation // of one task; never empty
	from time.Time            // first sample that counts
	last time.Time            // of the newest sample that was booked
	gpus []tally              // as held
}

// tally is what was seen of one GPU, MIG device or share.
type tally struct {
	profile     string // of a MIG device
	peak        *uint64
	busy        uint64 // sum of percentages
	samples     uint64 // that told a percentage
	first, most *uint64
}

func newAccount(held []restapi.Allocation, now time.Time) *account {
	return &account{held: held, from: now, gpus: make([]tally, len(held))}
}

// book adds a sample, unless it was booked or is older than the account.
func (a *account) book(r *gpuhost.Readings, memoryOf func(container string, of *gpuhost.Reading) *uint64) {
	if !r.Time.After(a.from) || !r.Time.After(a.last) {
		return
	}
	a.last = r.Time
	for i, h := range a.held {
		for n := range r.GPUs {
			a.gpus[i].book(&h, &r.GPUs[n], memoryOf)
		}
		a.gpus[i].noteProfile(h.UUID, r.Inventory)
	}
}

// book adds one GPU's reading if it is the one that is held.
func (t *tally) book(h *restapi.Allocation, r *gpuhost.Reading, memoryOf func(string, *gpuhost.Reading) *uint64) {
	for _, m := range r.MIG {
		if m.UUID == h.UUID && h.Share == "" {
			t.notePeak(m.MemoryUsedBytes)
		}
	}
	switch {
	case r.UUID != h.UUID:
	case h.Share != "":
		t.notePeak(memoryOf(h.Container, r))
	default:
		t.notePeak(r.MemoryUsedBytes)
		if r.GPUPercent != nil {
			t.busy += *r.GPUPercent
			t.samples++
		}
		t.noteEnergy(r.EnergyMillijoules)
	}
}

func (t *tally) notePeak(bytes *uint64) {
	if bytes != nil && (t.peak == nil || *bytes > *t.peak) {
		t.peak = bytes
	}
}

// noteEnergy keeps the first and the newest state of the card's counter. One
// that runs backwards (a reloaded driver) makes the energy unknown from there.
func (t *tally) noteEnergy(millijoules *uint64) {
	switch {
	case millijoules == nil:
	case t.first == nil || *millijoules < *t.first:
		t.first, t.most = millijoules, millijoules
	default:
		t.most = millijoules
	}
}

func (t *tally) noteProfile(uuid string, inv *gpuhost.Inventory) {
	if inv == nil || t.profile != "" {
		return
	}
	for i := range inv.GPUs {
		for _, m := range inv.GPUs[i].MIGDevices {
			if m.UUID == uuid {
				t.profile = m.Profile
			}
		}
	}
}

// close makes the record.
func (a *account) close(at time.Time) *Record {
	h := a.held[0]
	r := &Record{
		Namespace: h.Namespace, Job: h.Job, Group: h.Group, Task: h.Task, AllocID: h.AllocID, Container: h.Container,
		Started: h.Since.UTC(), Ended: at.UTC(), ObservedFrom: a.from.UTC(), GPUSeconds: a.seconds(at),
	}
	for i, held := range a.held {
		t := &a.gpus[i]
		u := Usage{UUID: held.UUID, Share: held.Share, MIGProfile: t.profile, PeakMemoryBytes: t.peak}
		if t.samples > 0 {
			u.MeanUtilization = new(float64(t.busy) / float64(t.samples) / 100)
		}
		if t.first != nil && t.most != t.first {
			u.EnergyJoules = new(float64(*t.most-*t.first) / 1000)
		}
		r.GPUs = append(r.GPUs, u)
	}
	return r
}

// seconds is the time that the task held its GPUs, each counted.
func (a *account) seconds(at time.Time) float64 {
	return max(at.Sub(a.held[0].Since).Seconds(), 0) * float64(len(a.held))
}
