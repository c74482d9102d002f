// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// splitGPU is the index of the GPU with seven MIG devices of profile a100-mig-535.
const splitGPU = 1

// keepsMIG fails unless the split GPU has the MIG devices that it had before.
func keepsMIG(t *testing.T, before, now *gpuhost.Inventory) {
	t.Helper()
	was := before.GPUs[splitGPU]
	at := slices.IndexFunc(now.GPUs, func(g gpuhost.GPU) bool { return g.UUID == was.UUID })
	must.NonNegative(t, at)
	must.True(t, now.GPUs[at].MIGEnabled)
	must.Len(t, 7, now.GPUs[at].MIGDevices)
	must.Eq(t, was.MIGDevices, now.GPUs[at].MIGDevices)
}

// TestMIG_failing: a GPU in MIG mode that fails, whatever fails of it, keeps its MIG
// devices and does not turn into a whole one (cases DEV-11, DEV-13).
func TestMIG_failing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fail func(*simhost.Host) error
		want string
	}{
		"lost":           {func(s *simhost.Host) error { return s.Lose(splitGPU) }, "GPU is lost (code 15) at 0000:41:00.0"},
		"no temperature": {failing("nvmlDeviceGetTemperature", 999), "unknown error (code 999) at 0000:41:00.0"},
		"no MIG mode":    {failing("nvmlDeviceGetMigMode", 999), "unknown error (code 999) at 0000:41:00.0"},
		"no slots":       {failing("nvmlDeviceGetMigDeviceHandleByIndex", 999), "unknown error (code 999) at 0000:41:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "a100-mig-535")
			host := open(t, sim)
			before := host.Look()
			must.NoError(t, tc.fail(sim))
			now := host.Look()
			must.True(t, unhealthy(splitGPU)(now), must.Sprintf("%+v", now))
			must.Eq(t, tc.want, now.GPUs[splitGPU].Unhealthy)
			keepsMIG(t, before, now)
			keepsMIG(t, before, host.Look())

			must.NoError(t, sim.Restore(splitGPU))
			must.NoError(t, sim.ClearFaults())
			keepsMIG(t, before, inventory(t, host, unhealthy()))
		})
	}
}

func failing(call string, code int) func(*simhost.Host) error {
	return func(s *simhost.Host) error { return s.Fail(call, code, splitGPU) }
}

// TestMIG_hang is the same for a call that does not come back.
func TestMIG_hang(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	host := open(t, sim, func(c *gpuhost.Config) { c.CallLimit = 300 * time.Millisecond })
	before := inventory(t, host, unhealthy())
	must.NoError(t, sim.Slow("nvmlDeviceGetTemperature", time.Hour, splitGPU))
	now := inventory(t, host, unhealthy(splitGPU))
	must.StrContains(t, now.GPUs[splitGPU].Unhealthy, "NVML does not answer")
	keepsMIG(t, before, now)
	must.NoError(t, sim.Slow("nvmlDeviceGetTemperature", 0, splitGPU))
	keepsMIG(t, before, inventory(t, host, unhealthy()))
}

// TestMIG_failingInNewSession: also when the driver was loaded anew meanwhile, and the
// GPU is only known from before or from the PCI bus (cases DEV-17).
func TestMIG_failingInNewSession(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*simhost.Host) error{
		"lost":           func(s *simhost.Host) error { return s.Lose(splitGPU) },
		"invisible":      func(s *simhost.Host) error { return s.Set(splitGPU, map[string]string{"present": "false"}) },
		"no temperature": failing("nvmlDeviceGetTemperature", 999),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "a100-mig-535")
			host := open(t, sim)
			before := host.Look()
			must.NoError(t, sim.Unload())
			must.SliceEmpty(t, host.Look().GPUs)
			must.NoError(t, fail(sim))
			must.NoError(t, sim.Load())
			now := host.Look()
			must.Len(t, 4, now.GPUs)
			for i := range now.GPUs {
				must.Eq(t, now.GPUs[i].UUID == before.GPUs[splitGPU].UUID, now.GPUs[i].Unhealthy != "")
			}
			keepsMIG(t, before, now)
			for _, reading := range host.Sample().GPUs {
				must.Eq(t, reading.UUID == before.GPUs[splitGPU].UUID, reading.Err != nil)
			}
		})
	}
}
