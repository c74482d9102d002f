// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// enoughSamples is how many samples in a row change the pace. One may be slow by
// chance: a GPU that hangs is waited for once.
const enoughSamples = 2

// pace is how often a stream asks for samples: at the interval that was asked
// for, or more slowly while samples take more than half of that (cases DEV-21).
type pace struct {
	asked    time.Duration
	interval time.Duration // now; at least asked
	last     *gpuhost.Readings
	slow     int // samples in a row that took too long for interval
	quick    int // samples in a row that asked has room for
}

func newPace(asked time.Duration) pace { return pace{asked: asked, interval: asked} }

// judge adapts the interval to how long NVML needed for a sample, and says
// whether it became longer. What a stream waited for beside the sample does not
// count; nor does a sample that it had before, as the next one is not done.
func (p *pace) judge(sample *gpuhost.Readings) (longer bool) {
	if sample == p.last || sample.Time.IsZero() {
		return false
	}
	p.last = sample
	switch {
	case sample.Took > p.interval/2:
		p.slow, p.quick = p.slow+1, 0
	case sample.Took <= p.asked/2:
		p.slow, p.quick = 0, p.quick+1
	default: // as it should be at this interval
		p.slow, p.quick = 0, 0
	}
	switch {
	case p.slow == enoughSamples:
		p.interval, p.slow = 2*p.interval, 0
		return true
	case p.quick >= enoughSamples:
		p.interval = p.asked
	}
	return false
}
