// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"math/bits"
	"sync"
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
	var group sync.WaitGroup
	for i := range gpus {
		place := survey.places[gpus[i].UUID]
		if place == nil || place.slot.handle == 0 {
			readings.GPUs[i] = Reading{UUID: gpus[i].UUID, Err: &UnreadableError{gpus[i].Unhealthy}}
			continue
		}
		group.Go(func() { readings.GPUs[i] = h.read(survey.session, place) })
	}
	group.Wait()
	readings.Time = time.Now()
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

// read samples one GPU. A GPU that turns out to be at fault is so for everybody.
func (h *Host) read(s *session, place *place) Reading {
	slot, id := place.slot, place.slot.id
	device, last, migs := slot.handle, slot.last, place.migs
	unified := place.gpu.UnifiedMemory
	now, err := onLane(slot.lane, s.nvml, func(c *caller) (sample, error) {
		a := h.asker(c, id.uuid)
		now := takeSample(a, device, &last)
		for _, mig := range migs {
			now.MIG = append(now.MIG, readMIG(a, mig))
		}
		if a.fault != nil {
			now.Err = a.fault
		}
		return now, now.Err
	})
	if err != nil {
		if isFault(err) && !h.atFault(id.uuid) {
			h.judge(id.uuid, faultText(err, id.busID))
			h.inventory.expire()
			h.watchers.wake()
		}
		return Reading{UUID: id.uuid, Err: err}
	}
	now.UUID = id.uuid
	if unified {
		now.MemoryTotalBytes, now.MemoryUsedBytes = h.root.unifiedMemory()
	}
	now.addRates(&last)
	slot.last = now
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
	memory, err := askMemoryInfo(a.caller, mig.handle)
	if err != nil {
		a.refused(err)
		return reading
	}
	reading.MemoryUsedBytes, reading.MemoryTotalBytes = &memory.used, &memory.total
	return reading
}
