// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestSimulatedHost builds a volume from what gpuhost finds on a simulated host:
// the K80 host's tree, and after an upgrade the other driver's beside it.
func TestSimulatedHost(t *testing.T) {
	sim, err := simhost.Up(t.Context(), simhost.Options{Root: filepath.Join(t.TempDir(), "sim"), Profile: "k80x4-352"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	host, err := gpuhost.Open(gpuhost.Config{DriverRoot: sim.Root(), Patience: time.Minute})
	must.NoError(t, err)
	t.Cleanup(host.Close)
	s := newStore(t, Config{}, host)

	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.Eq(t, "nvidia_driver_352.39", v.Name)
	want, err := os.ReadFile(filepath.Join("testdata/golden", k80, "volume-tree.txt"))
	must.NoError(t, err)
	must.Eq(t, strings.TrimSpace(string(want)), strings.Join(listTree(t, v.Mountpoint), "\n"))

	must.NoError(t, sim.Upgrade("535.104.05"))
	waitForDriver(t, host, "535.104.05")
	upgraded, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.Eq(t, "nvidia_driver_535.104.05", upgraded.Name)
	must.SliceContains(t, listTree(t, upgraded.Mountpoint), "lib64/libcuda.so.1 -> libcuda.so.535.104.05")
	must.Eq(t, strings.TrimSpace(string(want)), strings.Join(listTree(t, v.Mountpoint), "\n"))

	must.NoError(t, sim.Unload())
	waitForDriver(t, host, "")
	_, err = s.Ensure(t.Context())
	must.ErrorIs(t, err, ErrNoDriver)
	volumes, err := s.List()
	must.NoError(t, err)
	must.Len(t, 2, volumes)
}

// waitForDriver waits until the host has noticed a change of driver.
func waitForDriver(t *testing.T, host *gpuhost.Host, version string) {
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool { return host.Inventory(t.Context()).Driver.Version == version }),
		wait.Timeout(20*time.Second), wait.Gap(50*time.Millisecond),
	))
}
