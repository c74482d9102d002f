// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"github.com/shoenig/test/must"
)

// stall is a batch with one call that lasts until release is closed.
func stall(l *lane, entered *atomic.Int64, release chan struct{}) error {
	_, err := onLane(l, nil, func(c *caller) (struct{}, error) {
		if err := l.begin("nvmlStall"); err != nil {
			return struct{}{}, err
		}
		entered.Add(1)
		<-release
		return struct{}{}, l.end()
	})
	return err
}

// TestLane_hang: the one who waits is sent away, those after him at once, and the
// call is not made again until it came back. Nothing piles up meanwhile.
func TestLane_hang(t *testing.T) {
	l := newLane(50 * time.Millisecond)
	release := make(chan struct{})
	var entered atomic.Int64
	var hung *HungError
	must.True(t, errors.As(stall(l, &entered, release), &hung))
	must.Eq(t, "NVML does not answer (nvmlStall took longer than 50ms)", hung.Error())
	before := runtime.NumGoroutine()
	for range 1000 {
		must.True(t, errors.As(stall(l, &entered, release), &hung))
	}
	must.Eq(t, 1, entered.Load())
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched() // the last one ends
	}
	must.LessEq(t, before, runtime.NumGoroutine())
	must.True(t, l.stuck())
	close(release)
	for end := time.Now().Add(10 * time.Second); l.stuck() && time.Now().Before(end); {
		runtime.Gosched()
	}
	must.NoError(t, stall(l, &entered, release))
}

// TestLane_slowBatch: only a single call counts, not how many there are.
func TestLane_slowBatch(t *testing.T) {
	l := newLane(200 * time.Millisecond)
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	sum, err := onLane(l, nil, func(c *caller) (int, error) {
		for range 6 {
			if err := l.begin("nvmlSlow"); err != nil {
				return 0, err
			}
			<-tick.C
			if err := l.end(); err != nil {
				return 0, err
			}
		}
		return 6, nil
	})
	must.NoError(t, err)
	must.Eq(t, 6, sum)
}

// TestLane_inTurn: batches on a lane run one after the other.
func TestLane_inTurn(t *testing.T) {
	l := newLane(0)
	var inside atomic.Int64
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := onLane(l, nil, func(*caller) (struct{}, error) {
				if inside.Add(1) != 1 {
					return struct{}{}, errors.New("two at once")
				}
				runtime.Gosched()
				inside.Add(-1)
				return struct{}{}, nil
			})
			done <- err
		}()
	}
	for range 20 {
		must.NoError(t, <-done)
	}
}

// BenchmarkCall is what a call costs us beside the library's own time: the call
// goes to a function of the C library that returns its argument.
func BenchmarkCall(b *testing.B) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_LAZY)
	must.NoError(b, err)
	n := &nvml{}
	n.symbols[fnShutdown] = lookUp(libc, []string{"labs"})
	_, err = onLane(newLane(0), n, func(c *caller) (struct{}, error) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.call(fnShutdown, 0); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	must.NoError(b, err)
}
