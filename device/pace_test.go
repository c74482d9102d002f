// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// TestPace: two slow samples in a row double the interval, two quick ones bring
// the asked one back (cases DEV-21).
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name string
		took []time.Duration
		want time.Duration // the interval after the last sample; 1 s was asked for
	}{
		{"none", nil, time.Second},
		{"half of the interval", []time.Duration{500 * ms, 500 * ms, 500 * ms}, time.Second},
		{"one slow sample", []time.Duration{2000 * ms}, time.Second},
		{"slow now and then", []time.Duration{2000 * ms, 10 * ms, 2000 * ms, 10 * ms}, time.Second},
		{"two slow samples", []time.Duration{900 * ms, 900 * ms}, 2 * time.Second},
		{"slow, but not for two seconds", []time.Duration{900 * ms, 900 * ms, 900 * ms, 900 * ms, 900 * ms}, 2 * time.Second},
		{"slow for two seconds too", []time.Duration{1100 * ms, 1100 * ms, 1100 * ms, 1100 * ms}, 4 * time.Second},
		{"one quick sample", []time.Duration{900 * ms, 900 * ms, 10 * ms}, 2 * time.Second},
		{"quick again", []time.Duration{1100 * ms, 1100 * ms, 1100 * ms, 1100 * ms, 10 * ms, 10 * ms}, time.Second},
		{"quick now and then", []time.Duration{900 * ms, 900 * ms, 10 * ms, 900 * ms, 10 * ms}, 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPace(time.Second)
			for n, took := range tc.took {
				before := p.interval
				longer := p.judge(&gpuhost.Readings{Time: time.Now(), Took: took})
				must.Eq(t, p.interval > before, longer, must.Sprint(n))
			}
			must.Eq(t, tc.want, p.interval)
		})
	}
}

// TestPace_sameSample: a sample counts once, and one that is not there not at all.
func TestPace_sameSample(t *testing.T) {
	p := newPace(time.Second)
	slow := &gpuhost.Readings{Time: time.Now(), Took: time.Minute}
	for range 3 {
		must.False(t, p.judge(slow))
		must.False(t, p.judge(&gpuhost.Readings{Took: time.Minute}))
	}
	must.Eq(t, time.Second, p.interval)
}
