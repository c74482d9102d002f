// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// BenchmarkRequest measures one answer on a host with 8 GPUs and 100 tasks whose
// NVML takes 1 ms a call. v1 asked NVML anew for each request, some 15 calls a GPU.
func BenchmarkRequest(b *testing.B) {
	root := filepath.Join(b.TempDir(), "root")
	sim, err := simhost.Up(b.Context(), simhost.Options{Root: root, Profile: "a100x8-535"})
	must.NoError(b, err)
	b.Cleanup(func() { must.NoError(b, sim.Down()) })
	must.NoError(b, sim.Slow("*", time.Millisecond, -1))
	host, err := gpuhost.Open(gpuhost.Config{DriverRoot: root})
	must.NoError(b, err)
	b.Cleanup(host.Close)
	tasks := &fakeTasks{}
	inv := host.Inventory(b.Context())
	must.Len(b, 8, inv.GPUs)
	for i := range 100 {
		tasks.held = append(tasks.held, Allocation{
			UUID: inv.GPUs[i%8].UUID, Share: fmt.Sprint(i / 8), Namespace: "default", Job: "job", Group: "group", Task: "task",
			AllocID: fmt.Sprintf("alloc-%d", i), Container: fmt.Sprintf("%064x", i),
		})
	}
	handler := Handler(Config{Host: host, Allocations: tasks, Volumes: tasks})
	for _, target := range []string{"/v1.0/gpu/status/json", "/v1.0/gpu/info", "/metrics"} {
		b.Run(target, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
				must.Eq(b, http.StatusOK, w.Code)
			}
		})
	}
}
