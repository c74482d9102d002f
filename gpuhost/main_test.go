// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"go.uber.org/goleak"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestMain is also the entry of the CUDA probes that the tests start.
func TestMain(m *testing.M) {
	gpuhost.CUDAProbeMain()
	// These tests wait for what happens each second; they hardly compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// simulated starts a simulated host.
func simulated(t testing.TB, profile string) *simhost.Host {
	t.Helper()
	sim, err := simhost.Up(context.Background(), simhost.Options{
		Root: filepath.Join(t.TempDir(), "root"), Profile: profile,
	})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	return sim
}

// open opens a host on a simulated one. Faults are forgotten at once unless a
// test says otherwise.
func open(t testing.TB, sim *simhost.Host, change ...func(*gpuhost.Config)) *gpuhost.Host {
	t.Helper()
	cfg := gpuhost.Config{DriverRoot: sim.Root(), HealthyAfter: time.Nanosecond, Patience: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	host, err := gpuhost.Open(cfg)
	must.NoError(t, err)
	t.Cleanup(host.Close)
	return host
}

// inventory waits until the inventory is as wished.
func inventory(t testing.TB, host *gpuhost.Host, wished func(*gpuhost.Inventory) bool) *gpuhost.Inventory {
	t.Helper()
	var last *gpuhost.Inventory
	within(t, 20*time.Second, func() bool {
		last = host.Inventory(context.Background())
		return wished(last)
	}, func() any { return last })
	return last
}

// readings waits until the readings are as wished.
func readings(t testing.TB, host *gpuhost.Host, wished func(*gpuhost.Readings) bool) *gpuhost.Readings {
	t.Helper()
	var last *gpuhost.Readings
	within(t, 20*time.Second, func() bool {
		last = host.Readings(context.Background())
		return wished(last)
	}, func() any { return last })
	return last
}

// within polls a condition until it holds or the time is over.
func within(t testing.TB, limit time.Duration, holds func() bool, state func() any) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s; now: %+v", limit, state())
		}
	}
}

// unhealthy says whether the numbered GPUs, and no others, are unhealthy.
func unhealthy(gpus ...int) func(*gpuhost.Inventory) bool {
	return func(i *gpuhost.Inventory) bool {
		bad := make(map[int]bool)
		for _, index := range gpus {
			bad[index] = true
		}
		for _, gpu := range i.GPUs {
			if (gpu.Unhealthy != "") != bad[gpu.Index] {
				return false
			}
		}
		return len(i.GPUs) > 0
	}
}

// complete says whether CUDA's facts are there, which may come a moment later.
func complete(i *gpuhost.Inventory) bool {
	for _, gpu := range i.GPUs {
		if gpu.SharedPerSMBytes == nil {
			return false
		}
	}
	return len(i.GPUs) > 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
