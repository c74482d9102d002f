// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"
)

const (
	// Pauses between two tries of what the engine refused.
	firstRetry = 100 * time.Millisecond
	maxRetry   = time.Minute
	// Pauses between two tries to reach an engine that is away.
	firstReconnect = 100 * time.Millisecond
	maxReconnect   = 2 * time.Second
)

// backoff is a pause between tries that doubles from time to time.
type backoff struct {
	first, most time.Duration
	delay       time.Duration // the last one; zero before the first
}

// retries are the pauses between calls that the engine refused for a moment.
func retries() backoff { return backoff{first: firstRetry, most: maxRetry} }

// reconnects are the pauses between calls that the engine did not answer.
func reconnects() backoff { return backoff{first: firstReconnect, most: maxReconnect} }

// pause waits, or returns ctx's error when ctx ends first.
func (b *backoff) pause(ctx context.Context) error {
	b.delay = min(max(2*b.delay, b.first), b.most)
	timer := time.NewTimer(b.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
