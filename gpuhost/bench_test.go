// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// benchHosts are the sizes of host that are measured.
var benchHosts = []struct {
	name string
	gpus int
	mig  bool // seven MIG devices on each
}{{"gpus=1", 1, false}, {"gpus=8", 8, false}, {"gpus=16", 16, false}, {"gpus=8,migs=56", 8, true}}

// sized starts a simulated host with so many A100.
func sized(b *testing.B, gpus int, mig bool) *simhost.Host {
	b.Helper()
	profile, err := simhost.LoadProfile("a100x8-535", "")
	must.NoError(b, err)
	first := profile.Devices[0]
	profile.Devices, profile.Topology = nil, nil
	for i := range gpus {
		device := first
		device.NVML = maps.Clone(first.NVML)
		device.NVML["uuid"] = fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", i)
		device.NVML["pci_bus_id"] = fmt.Sprintf("0000:%02X:00.0", i+1)
		device.NVML["minor"] = i
		profile.Devices = append(profile.Devices, device)
	}
	text, err := json.Marshal(profile)
	must.NoError(b, err)
	path := filepath.Join(b.TempDir(), "profile.json")
	must.NoError(b, os.WriteFile(path, text, 0o600))
	sim := simulated(b, path)
	for i := range gpus {
		if mig {
			must.NoError(b, sim.Set(i, map[string]string{"mig": strings.TrimSuffix(strings.Repeat("1g.5gb,", 7), ",")}))
		}
	}
	return sim
}

// report gives NVML calls a GPU beside the time.
func report(b *testing.B, sim *simhost.Host, gpus int) {
	b.StopTimer()
	b.ReportMetric(float64(total(sim))/float64(b.N)/float64(gpus), "calls/gpu")
}

// BenchmarkFingerprint is one steady look at the host.
func BenchmarkFingerprint(b *testing.B) {
	for _, size := range benchHosts {
		b.Run(size.name, func(b *testing.B) {
			sim := sized(b, size.gpus, size.mig)
			host := open(b, sim)
			must.Len(b, size.gpus, host.Inventory(context.Background()).GPUs)
			must.NoError(b, sim.ResetCalls())
			var last *gpuhost.Inventory
			for b.Loop() {
				last = host.Look()
			}
			report(b, sim, size.gpus)
			must.Len(b, size.gpus, last.GPUs)
		})
	}
}

// BenchmarkStats is one round of statistics.
func BenchmarkStats(b *testing.B) {
	for _, size := range benchHosts {
		b.Run(size.name, func(b *testing.B) {
			sim := sized(b, size.gpus, size.mig)
			host := open(b, sim)
			host.Readings(context.Background())
			must.NoError(b, sim.ResetCalls())
			var last *gpuhost.Readings
			for b.Loop() {
				last = host.Sample()
			}
			report(b, sim, size.gpus)
			must.NoError(b, last.GPUs[0].Err)
		})
	}
}
