// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause = 500 * time.Millisecond
	lastPause  = 2 * time.Minute
	// steady is how long shipping must work before the pauses start anew.
	steady = 10 * time.Second
)

// backoff makes the pauses between attempts grow by a random factor of 1.15 to
// 2.3 (task-driver LG-4).
type backoff struct{ pause time.Duration }

// wait pauses, at most until hurry is closed, and reports false when ctx ends.
// A nil hurry never is.
func (b *backoff) wait(ctx context.Context, hurry <-chan struct{}) bool {
	b.grow()
	timer := time.NewTimer(b.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-ctx.Done():
		return false
	}
	return true
}

func (b *backoff) grow() {
	if b.pause == 0 {
		b.pause = firstPause
		return
	}
	b.pause = min(lastPause, time.Duration(float64(b.pause)*(1.15+1.15*rand.Float64())))
}

// ran starts the pauses anew after an attempt that worked for a while.
func (b *backoff) ran(d time.Duration) {
	if d >= steady {
		b.pause = 0
	}
}
