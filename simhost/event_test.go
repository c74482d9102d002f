// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// answer is what a waiting event set gave.
type answer struct {
	event nvml.EventData
	ret   nvml.Return
}

// eventSet waits for XIDs of some GPUs.
func eventSet(t *testing.T, lib nvml.Interface, gpus ...int) nvml.EventSet {
	t.Helper()
	set, ret := lib.EventSetCreate()
	must.Eq(t, nvml.SUCCESS, ret)
	for _, gpu := range gpus {
		must.Eq(t, nvml.SUCCESS, device(t, lib, gpu).RegisterEvents(nvml.EventTypeXidCriticalError, set))
	}
	return set
}

// waiting starts a wait of an hour.
func waiting(set nvml.EventSet) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		event, ret := set.Wait(3600_000)
		answers <- answer{event, ret}
	}()
	return answers
}

func receive(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(soon):
		t.Fatal("the event set still waits")
		return answer{}
	}
}

// TestXID: an XID wakes the sets that wait for its GPU, others wait on.
func TestXID(t *testing.T) {
	inChild(t, "a100x8-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		must.NoError(t, h.XID(2, 13)) // before the set: not for it
		one, other := eventSet(t, lib, 2, 3), eventSet(t, lib, 5)
		woken, quiet := waiting(one), waiting(other)
		waitFor(t, func() bool { return h.Calls()["nvmlEventSetWait_v2"] == 2 })
		must.NoError(t, h.XID(4, 31))
		must.NoError(t, h.XID(3, 79))
		got := receive(t, woken)
		must.Eq(t, nvml.SUCCESS, got.ret)
		index, _ := got.event.Device.GetIndex()
		must.Eq(t, 3, index)
		must.Eq(t, 79, got.event.EventData)
		must.Eq(t, nvml.EventTypeXidCriticalError, got.event.EventType)
		must.NoError(t, h.XID(5, 48))
		must.Eq(t, 48, receive(t, quiet).event.EventData)
		// Events between two waits are kept, in order.
		must.NoError(t, h.XID(2, 94))
		must.NoError(t, h.XID(3, 95))
		for _, code := range []uint64{94, 95} {
			event, ret := one.Wait(0)
			must.Eq(t, nvml.SUCCESS, ret)
			must.Eq(t, code, event.EventData)
		}
		start := time.Now()
		_, ret := one.Wait(150)
		must.Eq(t, nvml.ERROR_TIMEOUT, ret)
		must.GreaterEq(t, 150*time.Millisecond, time.Since(start))
		must.Eq(t, nvml.SUCCESS, one.Free())
		_, ret = one.Wait(0)
		must.Eq(t, nvml.ERROR_INVALID_ARGUMENT, ret)
	})
}

// TestWaitEnds: a loss, an injected fault, an unloaded driver and a stopped
// library end a wait.
func TestWaitEnds(t *testing.T) {
	inChild(t, "a100x8-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		set := eventSet(t, lib, 0, 1)
		for _, tc := range []struct {
			end  func() error
			want nvml.Return
		}{
			{func() error { return h.Lose(1) }, nvml.ERROR_GPU_IS_LOST},
			{func() error { return h.Fail("nvmlEventSetWait", 999, simhost.AllGPUs) }, nvml.ERROR_UNKNOWN},
			{h.Unload, nvml.ERROR_DRIVER_NOT_LOADED},
		} {
			before := h.Calls()["nvmlEventSetWait_v2"]
			answers := waiting(set)
			waitFor(t, func() bool { return h.Calls()["nvmlEventSetWait_v2"] > before })
			must.NoError(t, tc.end())
			must.Eq(t, tc.want, receive(t, answers).ret)
			must.NoError(t, h.ClearFaults())
		}
		must.NoError(t, h.Load())
		// The loss was told once; the set waits again.
		_, ret := set.Wait(0)
		must.Eq(t, nvml.ERROR_TIMEOUT, ret)
		answers := waiting(set)
		must.Eq(t, nvml.SUCCESS, lib.Shutdown())
		must.Eq(t, nvml.ERROR_UNINITIALIZED, receive(t, answers).ret)
	})
}

// TestUnsupportedEvents: a card without events refuses to register them.
func TestUnsupportedEvents(t *testing.T) {
	inChild(t, "old-340", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		set, ret := lib.EventSetCreate()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, nvml.ERROR_NOT_SUPPORTED, device(t, lib, 0).RegisterEvents(nvml.EventTypeXidCriticalError, set))
	})
}
