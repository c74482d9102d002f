// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
	"go.uber.org/goleak"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gauge is a host whose readings a test sets.
type gauge struct {
	mu sync.Mutex
	r  gpuhost.Readings
	n  int // how often it was asked
}

func (g *gauge) Readings(context.Context) *gpuhost.Readings {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
	r := g.r
	return &r
}

func (g *gauge) set(at time.Time, readings ...gpuhost.Reading) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.r.Time, g.r.GPUs = at, readings
}

func (g *gauge) asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

func reading(uuid string, percent, memory, millijoules uint64) gpuhost.Reading {
	return gpuhost.Reading{UUID: uuid, GPUPercent: &percent, MemoryUsedBytes: &memory, EnergyMillijoules: &millijoules}
}

func hold(since time.Time, namespace string, ids ...string) []restapi.Allocation {
	var held []restapi.Allocation
	for _, id := range ids {
		uuid, share, _ := strings.Cut(id, "::")
		held = append(held, restapi.Allocation{
			UUID: uuid, Share: share, Namespace: namespace, Job: "train", Group: "g", Task: "t", AllocID: "alloc", Container: "c", Since: since,
		})
	}
	return held
}

func TestRecordOfWholeGPUs(t *testing.T) {
	host, file := &gauge{}, filepath.Join(t.TempDir(), "new", "records.jsonl")
	l := New(Config{Host: host, File: file})
	start := time.Now().Add(-10 * time.Second)
	host.set(start, reading("GPU-a", 100, 99<<30, 0)) // before the task: another's
	l.Begin("task", hold(start, "prod", "GPU-a", "GPU-b"))
	l.book(host.Readings(t.Context()))
	now := time.Now()
	for i, r := range [][]gpuhost.Reading{
		{reading("GPU-a", 20, 3<<30, 5000), reading("GPU-b", 0, 1<<20, 100)},
		{reading("GPU-a", 60, 2<<30, 9000), reading("GPU-b", 100, 1<<21, 600)},
	} {
		host.set(now.Add(time.Duration(i+1)*time.Second), r...)
		l.book(host.Readings(t.Context()))
		l.book(host.Readings(t.Context())) // the same sample counts once
	}
	host.set(now.Add(3*time.Second), reading("GPU-a", 0, 0, 10000), reading("GPU-b", 0, 0, 1100))
	r := l.End(t.Context(), "task", start.Add(10*time.Second))
	must.NotNil(t, r)
	must.Eq(t, 20, r.GPUSeconds)
	must.Eq(t, []Usage{
		{UUID: "GPU-a", PeakMemoryBytes: new(uint64(3 << 30)), MeanUtilization: new(0.4), EnergyJoules: new(5.0)},
		{UUID: "GPU-b", PeakMemoryBytes: new(uint64(1 << 21)), MeanUtilization: new(0.5), EnergyJoules: new(1.0)},
	}, r.GPUs)
	must.Eq(t, "Held 2 GPUs for 10s, peak memory 3074 MiB, mean utilisation 45 %, energy 6 J", r.String())
	must.Nil(t, l.End(t.Context(), "task", now), must.Sprint("closed is closed"))

	line, err := os.ReadFile(file)
	must.NoError(t, err)
	var written Record
	must.NoError(t, json.Unmarshal(line, &written))
	must.Eq(t, r, &written)
	must.StrHasSuffix(t, "}\n", string(line))
}

// Shares and MIG devices have no utilisation and energy of their own.
func TestRecordOfParts(t *testing.T) {
	host := &gauge{r: gpuhost.Readings{Inventory: &gpuhost.Inventory{GPUs: []gpuhost.GPU{{UUID: "GPU-a", MIGDevices: []gpuhost.MIGDevice{{UUID: "MIG-a", Profile: "1g.5gb"}}}}}}}
	l := New(Config{Host: host})
	start := time.Now().Add(-time.Second)
	l.Begin("task", hold(start, "prod", "MIG-a", "GPU-b::2"))
	a := reading("GPU-a", 50, 1<<30, 1)
	a.MIG = []gpuhost.MIGReading{{UUID: "MIG-a", MemoryUsedBytes: new(uint64(7))}}
	host.set(time.Now().Add(time.Second), a, reading("GPU-b", 50, 1<<30, 1))
	l.book(host.Readings(t.Context()))
	r := l.End(t.Context(), "task", start.Add(time.Second))
	must.Eq(t, []Usage{
		{UUID: "MIG-a", MIGProfile: "1g.5gb", PeakMemoryBytes: new(uint64(7))},
		{UUID: "GPU-b", Share: "2", PeakMemoryBytes: new(uint64(0))}, // no process of the container
	}, r.GPUs)
	must.Eq(t, "Held 2 GPUs for 1s, peak memory 0 MiB", r.String())
}

// What the card does not tell, and a task too short to be seen, leave nothing.
func TestRecordUnknown(t *testing.T) {
	l := New(Config{Host: &gauge{}})
	start := time.Now()
	l.Begin("none", nil)
	must.Nil(t, l.End(t.Context(), "none", start))
	l.Begin("task", hold(start, "prod", "GPU-a"))
	r := l.End(t.Context(), "task", start.Add(1500*time.Millisecond))
	must.Eq(t, []Usage{{UUID: "GPU-a"}}, r.GPUs)
	must.Eq(t, "Held 1 GPU for 2s", r.String())
}

// A counter that starts anew with a reloaded driver does not make energy from nothing.
func TestEnergyOfReloadedDriver(t *testing.T) {
	var t1 tally
	for _, mj := range []uint64{900, 1000, 10, 30} {
		t1.noteEnergy(&mj)
	}
	must.Eq(t, 10, *t1.first)
	must.Eq(t, 30, *t1.most)
}

func TestUsageByNamespace(t *testing.T) {
	l := New(Config{Host: &gauge{}})
	start := time.Now().Add(-time.Hour)
	l.Begin("1", hold(start, "prod", "GPU-a"))
	l.Begin("2", hold(start, "dev", "GPU-b", "GPU-c"))
	first := l.Usage()
	must.Len(t, 2, first)
	must.Eq(t, "dev", first[0].Namespace)
	must.Between(t, 7200, first[0].GPUSeconds, 7210)
	must.Zero(t, first[0].Tasks)
	// Ended before the last scrape: the counter stays, it never runs back.
	l.End(t.Context(), "2", start.Add(time.Hour-time.Minute))
	second := l.Usage()
	must.Eq(t, first[0].GPUSeconds, second[0].GPUSeconds)
	must.Eq(t, 1, second[0].Tasks)
	must.GreaterEq(t, first[1].GPUSeconds, second[1].GPUSeconds)
}

// Without an open account nobody asks the host.
func TestRunSleepsWithoutAccounts(t *testing.T) {
	host := &gauge{}
	l := New(Config{Host: host})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	host.set(time.Now().Add(time.Minute), reading("GPU-a", 10, 5, 0))
	l.Begin("task", hold(time.Now(), "prod", "GPU-a"))
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return host.asked() > 0 }), wait.Timeout(4*time.Second), wait.Gap(time.Millisecond)))
	cancel()
	<-done
	must.Eq(t, 5, *l.End(t.Context(), "task", time.Now()).GPUs[0].PeakMemoryBytes)
}

func TestRecordFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	f := recordFile{path: path}
	must.NoError(t, os.WriteFile(path, make([]byte, maxFileBytes), 0o600))
	must.NoError(t, f.add(&Record{Job: "x"}))
	info, err := os.Stat(path)
	must.NoError(t, err)
	must.Less(t, 1000, info.Size())
	must.FileExists(t, path+".1")
	must.Error(t, (&recordFile{path: filepath.Join(path, "x")}).add(&Record{}))
}
