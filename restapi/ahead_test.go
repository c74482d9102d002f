// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// Requests in the time of grace get the last answer at once, all cost one
// question, and what is older waits for the host.
func TestAhead(t *testing.T) {
	type sample struct {
		n  int
		at time.Time
	}
	asked, answer := make(chan struct{}, 10), make(chan sample)
	a := &ahead[sample]{
		ask:    func(context.Context) sample { asked <- struct{}{}; return <-answer },
		timeOf: func(s sample) time.Time { return s.at },
	}
	give := func(n int, age time.Duration) { answer <- sample{n, time.Now().Add(-age)} }

	go give(1, freshFor+graceFor/5)
	must.Eq(t, 1, a.get(t.Context()).n, must.Sprint("the first waits"))
	<-asked
	must.Eq(t, 1, a.get(t.Context()).n, must.Sprint("a little too old"))
	must.Eq(t, 1, a.get(t.Context()).n)
	<-asked
	must.Eq(t, 0, len(asked), must.Sprint("one question is under way"))
	give(2, 2*freshFor)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return !a.fetching
	}), wait.Timeout(10*time.Second), wait.Gap(time.Millisecond)))
	go give(3, 0)
	must.Eq(t, 3, a.get(t.Context()).n, must.Sprint("too old: waits"))
}

// TestAhead_panic: a panic behind a request leaves the last answer, and the next
// request asks again (task-driver PL-15).
func TestAhead_panic(t *testing.T) {
	asked := make(chan struct{}, 10)
	a := &ahead[int]{
		ask:    func(context.Context) int { asked <- struct{}{}; panic("odd") },
		timeOf: func(int) time.Time { return time.Now() },
	}
	for range 2 {
		a.mu.Lock()
		a.last, a.time = 7, time.Now().Add(-freshFor)
		a.mu.Unlock()
		must.Eq(t, 7, a.get(t.Context()))
		<-asked
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return !a.fetching
		}), wait.Timeout(10*time.Second), wait.Gap(time.Millisecond)))
	}
}
