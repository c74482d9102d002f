// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
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

// Each way between two GPUs has its number and its name (GI-6).
func TestLinks(t *testing.T) {
	sim := withLevels(t, 50, 40, 30, 20, 10, 0)
	var info Info
	must.NoError(t, json.Unmarshal([]byte(httpGet(t, sim, "/gpu/info/json")), &info))
	var links []gpuhost.Link
	for _, peer := range info.Devices[0].Topology {
		links = append(links, peer.Link)
	}
	must.Eq(t, []gpuhost.Link{1, 2, 3, 4, 5, 6}, links)
	text := httpGet(t, sim, "/gpu/info")
	for i, name := range []string{"Cross CPU socket", "Same CPU socket", "Host PCI bridge", "Multiple PCI switches", "Single PCI switch", "Same board"} {
		must.StrContains(t, text, info.Devices[0].Topology[i].BusID+" - "+name+"\n")
	}
}

// withLevels simulates a host whose first GPU has peers, each with its common ancestor.
func withLevels(t *testing.T, levels ...int) (addr string) {
	t.Helper()
	raw, err := os.ReadFile("../simhost/profiles/v100x8-450.json")
	must.NoError(t, err)
	var profile map[string]any
	must.NoError(t, json.Unmarshal(raw, &profile))
	var pairs []map[string]any
	for i, level := range levels {
		pairs = append(pairs, map[string]any{"a": 0, "b": i + 1, "peer": true, "level": level})
	}
	profile["topology"] = pairs
	raw, err = json.Marshal(profile)
	must.NoError(t, err)
	file := filepath.Join(t.TempDir(), "profile.json")
	must.NoError(t, os.WriteFile(file, raw, 0o600))
	_, addr = serveSimulated(t, simhost.Options{Profile: file})
	return addr
}

// TestEightGPUs: docker's options name the control devices, then each GPU once, in the
// order of the inventory (cases RST-01).
func TestEightGPUs(t *testing.T) {
	_, addr := serveSimulated(t, simhost.Options{Profile: "a100x8-535"})
	got := httpGet(t, addr, "/v1.0/docker/cli/json")
	var cli struct{ Devices []string }
	must.NoError(t, json.Unmarshal([]byte(got), &cli))
	must.Eq(t, []string{
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
		"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3", "/dev/nvidia4", "/dev/nvidia5", "/dev/nvidia6", "/dev/nvidia7",
	}, cli.Devices)
	must.Eq(t, got, httpGet(t, addr, "/docker/cli/json"))
	must.StrHasSuffix(t, " --device=/dev/nvidia-uvm-tools --device=/dev/nvidia1 --device=/dev/nvidia6", httpGet(t, addr, "/v1.0/docker/cli?dev=6+1"))
}

// TestNoData: a reading for which the driver has no data (code 21) is null, and the
// card's other readings are there (cases RST-05).
func TestNoData(t *testing.T) {
	sim, addr := serveSimulated(t, simhost.Options{Profile: "titanx4-361"})
	must.NoError(t, sim.Fail("nvmlDeviceGetPowerUsage", int(gpuhost.CodeNoData), -1))
	var status struct {
		Devices []struct{ Power, Temperature *int }
	}
	must.NoError(t, json.Unmarshal([]byte(httpGet(t, addr, "/v1.0/gpu/status/json")), &status))
	must.Len(t, 4, status.Devices)
	for _, d := range status.Devices {
		must.Nil(t, d.Power)
		must.NotNil(t, d.Temperature)
	}
}

func httpGet(t *testing.T, addr, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	must.NoError(t, err)
	answer, err := http.DefaultClient.Do(req)
	must.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.NoError(t, err)
	must.Eq(t, http.StatusOK, answer.StatusCode, must.Sprint(string(body)))
	return string(body)
}

// simulate starts the simulated host of a fixture and an API on it, until the test ends.
func simulate(t *testing.T, fixture, scenario string) (addr string) {
	t.Helper()
	_, addr = serveSimulated(t, simhost.Options{Profile: filepath.Join(fixtureDir(fixture), "fixture.json"), Scenario: scenario})
	return addr
}

// serveSimulated starts a simulated host and an API on it, until the test ends.
func serveSimulated(t *testing.T, options simhost.Options) (sim *simhost.Host, addr string) {
	t.Helper()
	options.Root = filepath.Join(t.TempDir(), "root")
	sim, err := simhost.Up(t.Context(), options)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	host, err := gpuhost.Open(gpuhost.Config{DriverRoot: options.Root, Patience: time.Minute})
	must.NoError(t, err)
	t.Cleanup(host.Close)
	srv := httptest.NewServer(Handler(Config{Host: host}))
	t.Cleanup(srv.Close)
	return sim, srv.Listener.Addr().String()
}
