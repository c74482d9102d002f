// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"context"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// renewals is an answer whose renewals a test ends one by one.
func renewals(patience time.Duration) (s *shared[int], begun chan int, end chan struct{}) {
	begun, end = make(chan int), make(chan struct{})
	count := 0
	s = &shared[int]{patience: patience, renew: func() int {
		count++
		begun <- count
		<-end
		return count
	}}
	return s, begun, end
}

// TestShared_expiresDuringRenewal: what happens during a look may have been missed
// by it, so a reader that was told of it waits for the next one.
func TestShared_expiresDuringRenewal(t *testing.T) {
	s, begun, end := renewals(time.Minute)
	answer := make(chan int)
	read := func() { answer <- s.get(context.Background()) }
	go read()
	must.Eq(t, 1, <-begun)
	s.expire()
	go read()
	end <- struct{}{}
	must.Eq(t, 2, <-begun)
	end <- struct{}{}
	must.Eq(t, 2, <-answer)
	must.Eq(t, 2, <-answer)
	must.Eq(t, 2, s.get(context.Background()), must.Sprint("fresh enough"))
}

// TestShared_patience: no reader waits longer than it has patience, whether or not
// the answer expired meanwhile.
func TestShared_patience(t *testing.T) {
	s, begun, end := renewals(10 * time.Millisecond)
	answer := make(chan int)
	go func() { answer <- s.get(context.Background()) }()
	<-begun
	s.expire()
	must.Eq(t, 0, <-answer)
	end <- struct{}{}
	s.close()
	must.Eq(t, 1, s.last())
}

// TestShared_panic: a renewal that ends in a panic leaves the last answer and holds up
// nobody (task-driver PL-15).
func TestShared_panic(t *testing.T) {
	calls := 0
	s := &shared[int]{patience: time.Minute, value: 7}
	s.renew = func() int {
		if calls++; calls == 1 {
			panic("odd")
		}
		return calls
	}
	must.Eq(t, 7, s.get(context.Background()))
	s.expire()
	must.Eq(t, 2, s.get(context.Background()))
	s.close()
}
