// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func lanes(n int, limit time.Duration) []*lane {
	all := make([]*lane, n)
	for i := range all {
		all[i] = newLane(limit)
	}
	return all
}

// TestOnLanes: answers and failures come in the order of the lanes.
func TestOnLanes(t *testing.T) {
	must.SliceEmpty(t, onLanes(nil, nil, func(int, *caller) (int, error) { return 0, nil }))
	answers := onLanes(lanes(20, 0), nil, func(i int, c *caller) (int, error) {
		if i%3 == 0 {
			return 0, fmt.Errorf("no %d", i)
		}
		return i, nil
	})
	must.Len(t, 20, answers)
	for i, a := range answers {
		if i%3 == 0 {
			must.EqError(t, a.err, fmt.Sprintf("no %d", i))
		} else {
			must.NoError(t, a.err)
			must.Eq(t, i, a.value)
		}
	}
}

// TestOnLanes_slow: batches that wait for each other all run at once.
func TestOnLanes_slow(t *testing.T) {
	const count = 16
	var inside atomic.Int64
	all := make(chan struct{})
	answers := onLanes(lanes(count, time.Minute), nil, func(int, *caller) (int, error) {
		if inside.Add(1) == count {
			close(all)
		}
		<-all
		return 1, nil
	})
	must.Len(t, count, answers)
}

// TestOnLanes_hang: what hangs is given up, and nothing else. Its answer is not
// taken when it comes after all, and then its lane is free again.
func TestOnLanes_hang(t *testing.T) {
	all := lanes(8, 50*time.Millisecond)
	release := make(chan struct{})
	hang := func(i int, c *caller) (int, error) {
		if err := c.lane.begin("nvmlStall"); err != nil {
			return 0, err
		}
		if i == 0 || i == 3 {
			<-release
		}
		return i + 100, c.lane.end()
	}
	for range 3 {
		for i, a := range onLanes(all, nil, hang) {
			var hung *HungError
			if i == 0 || i == 3 {
				must.True(t, errors.As(a.err, &hung), must.Sprint(i, a.err))
				must.Eq(t, 0, a.value)
			} else {
				must.NoError(t, a.err)
				must.Eq(t, i+100, a.value)
			}
		}
	}
	close(release)
	for end := time.Now().Add(10 * time.Second); (all[0].stuck() || all[3].stuck()) && time.Now().Before(end); {
		runtime.Gosched()
	}
	for i, a := range onLanes(all, nil, hang) {
		must.NoError(t, a.err)
		must.Eq(t, i+100, a.value)
	}
}

// TestOnLanes_panic: a panic is the error of its lane alone, which is free again
// (task-driver PL-15).
func TestOnLanes_panic(t *testing.T) {
	all := lanes(3, time.Minute)
	for range 2 {
		for i, a := range onLanes(all, nil, func(i int, c *caller) (int, error) {
			if i == 1 {
				panic("odd")
			}
			return i, nil
		}) {
			if i == 1 {
				must.ErrorContains(t, a.err, "internal error in asking a GPU: odd")
			} else {
				must.NoError(t, a.err)
			}
			must.False(t, all[i].stuck())
		}
	}
}
