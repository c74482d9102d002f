// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// idleTime is how long an idle plugin is watched.
const idleTime = 20 * time.Second

// BenchmarkIdle watches a plugin with its default periods, as an agent uses it: a
// fingerprint stream and statistics every second, of 8 GPUs. It reports the
// share of one processor's time and the memory of this process.
func BenchmarkIdle(b *testing.B) {
	must.NoError(b, relaxTimers(os.Getpid()))
	sim := simulated(b, "a100x8-535")
	p := testPlugin(b, sim, func(c *Config) { c.FingerprintPeriod = defaultFingerprintPeriod })
	fingerprint(b, p).until(withUsable(8))
	ctx, cancel := context.WithCancel(context.Background())
	messages, err := p.Stats(ctx, time.Second)
	must.NoError(b, err)
	<-messages
	for b.Loop() {
		before := processorTime(b)
		goroutines := runtime.NumGoroutine()
		rounds := 0
		for end := time.Now().Add(idleTime); time.Now().Before(end); rounds++ {
			<-messages
		}
		used := processorTime(b) - before
		b.ReportMetric(100*used.Seconds()/idleTime.Seconds(), "%CPU")
		b.ReportMetric(float64(rounds), "rounds")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines+")
		b.ReportMetric(residentMB(b), "MB")
	}
	cancel()
	for range messages {
	}
}

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	must.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentMB is this process's resident memory.
func residentMB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	must.NoError(b, err)
	for line := range strings.Lines(string(status)) {
		var kB float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kB); n == 1 {
			return kB / 1000
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
