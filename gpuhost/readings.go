// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"math/bits"
	"time"
)

const (
	// surveyAge is how old the last look at the host may be for a sample.
	surveyAge = time.Minute
	// surveyAgeWithout is the same while there is no driver.
	surveyAgeWithout = 5 * time.Second
)

// sample is a reading with what the next one builds upon.
type sample struct {
	Reading
	time     time.Time
	nvlinkRx *uint64 // KiB since driver load
	nvlinkTx *uint64
}

// renewReadings takes a sample of every GPU, each on its own lane.
func (h *Host) renewReadings() *Readings {
	h.work.Lock()
	defer h.work.Unlock()
	survey := h.recentSurvey()
	gpus := survey.inventory.GPUs
	readings := &Readings{Inventory: survey.inventory, GPUs: make([]Reading, len(gpus))}
	var lanes []*lane
	var subjects []subject
	var at []int // in readings
	for i := range gpus {
		place := survey.places[gpus[i].UUID]
		if place == nil || place.slot.handle == 0 {
			readings.GPUs[i] = Reading{UUID: gpus[i].UUID, Err: &UnreadableError{gpus[i].Unhealthy}}
			continue
		}
		slot := place.slot
		lanes, at = append(lanes, slot.lane), append(at, i)
		subjects = append(subjects, subject{slot.id.uuid, slot.handle, slot.last, place.migs})
	}
	begin := time.Now()
	if len(lanes) > 0 {
		answers := onLanes(lanes, survey.session.nvml, func(i int, c *caller) (sample, error) { return h.sample(c, subjects[i]) })
		for i, answer := range answers {
			gpu := at[i]
			readings.GPUs[gpu] = h.note(survey.places[gpus[gpu].UUID], answer)
		}
	}
	readings.Time = time.Now()
	readings.Took = readings.Time.Sub(begin)
	return readings
}

// recentSurvey is the last look at the host, or a new one when that is old;
// h.work is held.
func (h *Host) recentSurvey() *survey {
	age := surveyAge
	if h.session == nil {
		age = surveyAgeWithout
	}
	if h.survey == nil || time.Since(h.survey.inventory.Time) > age {
		return h.look()
	}
	return h.survey
}

// UnreadableError is why a GPU of the inventory has no readings.
type UnreadableError struct{ Reason string }

// Error gives the reason.
func (e *UnreadableError) Error() string { return "GPU cannot be read: " + e.Reason }

// subject is what a sample is taken of. It is nobody else's: a batch that hangs
// may still use it when the GPU has another place.
type subject struct {
	uuid   string
	handle uintptr
	last   *sample // nil before the first
	migs   []migFound
}

// sample reads one GPU and its MIG devices.
func (h *Host) sample(c *caller, of subject) (sample, error) {
	a := h.asker(c, of.uuid)
	now := takeSample(a, of.handle, of.last)
	for _, mig := range of.migs {
		now.MIG = append(now.MIG, readMIG(a, mig))
	}
	if a.fault != nil {
		now.Err = a.fault
	}
	return now, now.Err
}

// note makes a sample the GPU's last one. A GPU that turns out to be at fault is
// so for everybody.
func (h *Host) note(p *place, answer answer[sample]) Reading {
	id := p.slot.id
	if err := answer.err; err != nil {
		if isFault(err) && !h.atFault(id.uuid) {
			h.judge(id.uuid, faultText(err, id.busID))
			h.inventory.expire()
			h.watchers.wake()
		}
		return Reading{UUID: id.uuid, Err: err}
	}
	now := answer.value
	now.UUID = id.uuid
	if p.gpu.UnifiedMemory {
		now.MemoryTotalBytes, now.MemoryUsedBytes = h.root.unifiedMemory()
	}
	if p.slot.last != nil {
		now.addRates(p.slot.last)
	}
	p.slot.last = &now
	return now.Reading
}

// addRates turns counters into rates with the help of the last sample.
func (s *sample) addRates(last *sample) {
	elapsed := s.time.Sub(last.time)
	s.NVLinkRxKBps = rate(last.nvlinkRx, s.nvlinkRx, elapsed)
	s.NVLinkTxKBps = rate(last.nvlinkTx, s.nvlinkTx, elapsed)
}

// rate is the growth of a KiB counter in kB/s; nil without two values in order.
func rate(before, after *uint64, elapsed time.Duration) *uint64 {
	if before == nil || after == nil || *after < *before || elapsed <= 0 {
		return nil
	}
	high, low := bits.Mul64(*after-*before, 1024*uint64(time.Second)/1000)
	if high >= uint64(elapsed) {
		return nil
	}
	perSecond, _ := bits.Div64(high, low, uint64(elapsed))
	return &perSecond
}

func readMIG(a *asker, mig migFound) MIGReading {
	reading := MIGReading{UUID: mig.UUID}
	if mig.handle == 0 {
		return reading
	}
	memory, err := askMemoryInfo(a.caller, mig.handle)
	if err != nil {
		a.refused(err)
		return reading
	}
	reading.MemoryUsedBytes, reading.MemoryTotalBytes = &memory.used, &memory.total
	return reading
}
