// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

func TestMain(m *testing.M) {
	gpuhost.CUDAProbeMain()
	m.Run()
}

// nvmlRecords differ on a simulated host alone: nobody can forbid root to look at
// a file, so there the node is a link to itself, and the error's text another.
var nvmlRecords = map[string]ownAnswer{
	"uvm-tools-stat-fails.docker_cli":      {http.StatusBadRequest, "uvm-tools-stat-fails.docker_cli.txt"},
	"uvm-tools-stat-fails.docker_cli_json": {http.StatusBadRequest, "uvm-tools-stat-fails.docker_cli.txt"},
}

// The golden records again, through NVML and CUDA libraries that behave as the
// fixture says, and real HTTP.
func TestGoldenThroughNVML(t *testing.T) {
	changed := maps.Clone(changedRecords)
	maps.Copy(changed, nvmlRecords)
	for _, host := range goldenHosts {
		t.Run(host, func(t *testing.T) {
			servers := map[string]string{}
			for _, r := range goldenRecords(t, host) {
				addr, up := servers[r.Scenario]
				if !up {
					addr = simulate(t, host, r.Scenario)
					servers[r.Scenario] = addr
				}
				t.Run(r.ID, func(t *testing.T) { compareGolden(t, host, r, addr, changed) })
			}
		})
	}
}

// simulate starts a simulated host and an API on it, until the test ends.
func simulate(t *testing.T, fixture, scenario string) (addr string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	sim, err := simhost.Up(t.Context(), simhost.Options{
		Root:     root,
		Profile:  filepath.Join(fixtureDir(fixture), "fixture.json"),
		Scenario: scenario,
	})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	host, err := gpuhost.Open(gpuhost.Config{DriverRoot: root, Patience: time.Minute})
	must.NoError(t, err)
	t.Cleanup(host.Close)
	srv := httptest.NewServer(Handler(Config{Host: host}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}
