// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi/serve"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// What the benchmarks ask for; the stylesheet is the floor, it asks the host nothing.
var benchTargets = []string{"/v1.0/gpu/status/json", "/metrics", stylePath}

// benchSite is a host with 8 GPUs, 100 tasks and an NVML that takes 1 ms a call,
// and a real server on it.
type benchSite struct {
	sim    *simhost.Host
	host   *gpuhost.Host
	base   string // URL of the server
	client *http.Client
}

func newBenchSite(tb testing.TB) *benchSite {
	tb.Helper()
	root := filepath.Join(tb.TempDir(), "root")
	s := &benchSite{}
	var err error
	s.sim, err = simhost.Up(tb.Context(), simhost.Options{Root: root, Profile: "a100x8-535"})
	must.NoError(tb, err)
	tb.Cleanup(func() { must.NoError(tb, s.sim.Down()) })
	must.NoError(tb, s.sim.Slow("*", time.Millisecond, -1))
	s.host, err = gpuhost.Open(gpuhost.Config{DriverRoot: root})
	must.NoError(tb, err)
	tb.Cleanup(s.host.Close)
	tasks := hundredTasks(tb, s.host)
	server, err := serve.Start(tb.Context(), serve.Config{
		APIAddress: "127.0.0.1:0", API: Handler(Config{Host: s.host, Allocations: tasks, Volumes: tasks}),
	})
	must.NoError(tb, err)
	tb.Cleanup(server.Stop)
	s.base = "http://" + server.Status().API.Address
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	tb.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport}
	return s
}

func hundredTasks(tb testing.TB, host *gpuhost.Host) *fakeTasks {
	tb.Helper()
	inv := host.Inventory(tb.Context())
	must.Len(tb, 8, inv.GPUs)
	tasks := &fakeTasks{}
	for i := range 100 {
		tasks.held = append(tasks.held, Allocation{
			UUID: inv.GPUs[i%8].UUID, Share: fmt.Sprint(i / 8), Namespace: "default", Job: "job", Group: "group", Task: "task",
			AllocID: fmt.Sprintf("alloc-%d", i), Container: fmt.Sprintf("%064x", i),
		})
	}
	return tasks
}

// get asks once, to the last byte.
func (s *benchSite) get(ctx context.Context, target string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+target, nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", target, answer.Status)
	}
	return nil
}

// BenchmarkRequest measures how many requests a second two clients can have, and
// what a request leaves in memory: run it with -benchtime 1000000x.
func BenchmarkRequest(b *testing.B) {
	for _, target := range benchTargets {
		b.Run(target, func(b *testing.B) {
			s := newBenchSite(b)
			must.NoError(b, s.get(b.Context(), target))
			before := liveHeap()
			b.SetParallelism(1)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := s.get(b.Context(), target); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
			b.ReportMetric((liveHeap()-before)/1024, "heap-growth-KiB")
		})
	}
}

// liveHeap is what a collection leaves, in bytes.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // what finalisers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkAtRate asks 1,000 times a second, whether the answers keep up or not,
// and tells the quantiles of the time from when a request was due to the end of
// its answer. Run it with -benchtime 20000x.
func BenchmarkAtRate(b *testing.B) {
	const every = time.Millisecond
	for _, target := range benchTargets {
		b.Run(target, func(b *testing.B) {
			s := newBenchSite(b)
			must.NoError(b, s.get(b.Context(), target))
			took := make([]time.Duration, b.N)
			var asked sync.WaitGroup
			b.ResetTimer()
			begun := time.Now()
			for i := range b.N {
				due := begun.Add(time.Duration(i) * every)
				time.Sleep(time.Until(due))
				asked.Go(func() {
					if err := s.get(b.Context(), target); err != nil {
						b.Error(err)
					}
					took[i] = time.Since(due)
				})
			}
			asked.Wait()
			b.StopTimer()
			slices.Sort(took)
			for name, q := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
				b.ReportMetric(float64(took[min(int(q*float64(b.N)), b.N-1)].Microseconds())/1000, name)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}

// BenchmarkRound is what one look at all GPUs costs: the least that a request
// cost nvidia-docker-plugin, which asked NVML anew for each. calls/op times 1 ms
// is the time that it took, for it asked one call after the other.
func BenchmarkRound(b *testing.B) {
	s := newBenchSite(b)
	before := callsOf(s.sim)
	for b.Loop() {
		b.StopTimer()
		age := time.Since(s.host.Readings(b.Context()).Time)
		time.Sleep(time.Second - age) // until the sample is stale
		b.StartTimer()
		s.host.Readings(b.Context())
	}
	b.StopTimer()
	b.ReportMetric(float64(callsOf(s.sim)-before)/float64(b.N), "calls/op")
}

func callsOf(sim *simhost.Host) uint64 {
	var sum uint64
	for _, n := range sim.Calls() {
		sum += n
	}
	return sum
}

// However many ask, NVML is asked once a second: a thousand requests cost it no
// more than one look a second at each of the 8 GPUs.
func TestRequestsShareOneSample(t *testing.T) {
	s := newBenchSite(t)
	must.NoError(t, s.get(t.Context(), "/metrics"))
	before, begun := looks(t, s.sim), time.Now()
	for range 500 {
		for _, target := range benchTargets {
			must.NoError(t, s.get(t.Context(), target))
		}
	}
	allowed := uint64(time.Since(begun)/time.Second) + 2
	must.LessEq(t, before+8*allowed, looks(t, s.sim))
}

// looks counts by a call that one look makes once for each GPU.
func looks(t *testing.T, sim *simhost.Host) uint64 {
	t.Helper()
	calls := sim.Calls()
	must.Positive(t, calls["nvmlDeviceGetPowerUsage"], must.Sprint(calls))
	return calls["nvmlDeviceGetPowerUsage"]
}
