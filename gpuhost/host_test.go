// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

func value[T any](t testing.TB, p *T) T {
	t.Helper()
	if p == nil {
		t.Fatal("a value is missing")
	}
	return *p
}

func TestInventory_k80(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	inv := inventory(t, host, complete)
	must.Eq(t, "", inv.Reason)
	must.Eq(t, "352.39", inv.Driver.Version)
	must.Eq(t, "7.5", inv.Driver.CUDA.String())
	must.Eq(t, "352.39", inv.Driver.KernelVersion)
	must.StrContains(t, inv.Driver.Library, "libnvidia-ml.so.352.39")
	must.Len(t, 4, inv.GPUs)

	gpu := inv.GPUs[0]
	must.Eq(t, "GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11", gpu.UUID)
	must.Eq(t, "0000:06:00.0", gpu.PCIBusID)
	must.Eq(t, "/dev/nvidia0", gpu.Path())
	must.Eq(t, "Tesla K80", value(t, gpu.Model))
	must.Eq(t, "Kepler", value(t, gpu.Architecture))
	must.Eq(t, gpuhost.ComputeCapability{Major: 3, Minor: 7}, value(t, gpu.ComputeCapability))
	must.Eq(t, 2496, value(t, gpu.Cores))
	must.Eq(t, 0, value(t, gpu.NUMANode))
	must.Eq(t, 149000, value(t, gpu.PowerLimitMilliwatts))
	must.Eq(t, 17179869184, value(t, gpu.BAR1TotalBytes))
	must.Eq(t, 15760, value(t, gpu.PCIeBandwidthMBps))
	must.Eq(t, 875, value(t, gpu.MaxSMClockMHz))
	must.Eq(t, 2505, value(t, gpu.MaxMemoryClockMHz))
	must.True(t, value(t, gpu.ECCEnabled))
	must.Eq(t, 12079136768, value(t, gpu.GlobalBytes))
	must.Eq(t, 114688, value(t, gpu.SharedPerSMBytes))
	must.Eq(t, 65536, value(t, gpu.ConstantBytes))
	must.Eq(t, 1572864, value(t, gpu.L2Bytes))
	must.Eq(t, 240480, value(t, gpu.MemoryBandwidthMBps))
	must.Eq(t, 1, value(t, inv.GPUs[2].NUMANode))
	must.Eq(t, "", gpu.Unhealthy)
	must.SliceNotEmpty(t, gpu.Peers)
}

// TestInventory_titanx: minors run against the PCI order (cases DEV-25), NUMA
// node -1 is none, and pairs that CUDA keeps apart have no entry.
func TestInventory_titanx(t *testing.T) {
	t.Parallel()
	host := open(t, simulated(t, "titanx4-361"))
	inv := inventory(t, host, complete)
	must.Len(t, 4, inv.GPUs)
	must.Eq(t, "/dev/nvidia3", inv.GPUs[0].Path())
	must.Nil(t, inv.GPUs[0].NUMANode)
	must.False(t, value(t, inv.GPUs[0].ECCEnabled))
	node, err := host.GPUNode(&inv.GPUs[0])
	must.NoError(t, err)
	must.Eq(t, "/dev/nvidia3", node.ContainerPath)
	must.True(t, strings.HasSuffix(node.HostPath, "/dev/nvidia3"))
	must.Eq(t, []gpuhost.Peer{
		{PCIBusID: inv.GPUs[1].PCIBusID, Link: gpuhost.LinkSingleSwitch},
		{PCIBusID: inv.GPUs[2].PCIBusID, Link: gpuhost.LinkMultipleSwitches},
		{PCIBusID: inv.GPUs[3].PCIBusID, Link: gpuhost.LinkHostBridge},
	}, inv.GPUs[0].Peers)
	must.Len(t, 2, inv.GPUs[1].Peers)
}

func TestGPUNode_missing(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	inv := host.Inventory(context.Background())
	must.NoError(t, os.Remove(filepath.Join(sim.Root(), "dev/nvidia2")))
	_, err := host.GPUNode(&inv.GPUs[2])
	must.ErrorContains(t, err, "/dev/nvidia2")
	must.ErrorContains(t, err, "nvidia-modprobe -c 2")
}

func TestControlNodes(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	var names []string
	for _, node := range host.ControlNodes() {
		must.Eq(t, filepath.Join(sim.Root(), node.ContainerPath), node.HostPath)
		names = append(names, filepath.Base(node.HostPath))
	}
	must.Eq(t, "nvidiactl", names[0])
	must.SliceContains(t, names, "nvidia-uvm")
	must.SliceNotContains(t, names, "nvidia-uvm-tools")
}

func TestOpen_impossible(t *testing.T) {
	_, err := gpuhost.Open(gpuhost.Config{DriverRoot: "relative"})
	must.ErrorContains(t, err, `driver root "relative" must be an absolute path`)
	_, err = gpuhost.Open(gpuhost.Config{NVMLLibrary: "libnvidia-ml.so.1"})
	must.ErrorContains(t, err, `NVML library "libnvidia-ml.so.1" must be an absolute path`)
}

// TestNoDriver: no library, a library that is none, and one that is cut short
// are reasons, not failures (cases DEV-04, DEV-19).
func TestNoDriver(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(filepath.Join(simulated(t, "k80x4-352").Root(), "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.352.39"))
	must.NoError(t, err)
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"missing": {nil, "NVML library not found: no libnvidia-ml.so.1 under"},
		"text":    {[]byte("#!/bin/sh\n"), "not an ELF shared object"},
		"cut":     {whole[:len(whole)/2], "not an ELF shared object"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			cfg := gpuhost.Config{DriverRoot: root}
			if tc.content != nil {
				cfg.NVMLLibrary = filepath.Join(root, "libnvidia-ml.so.1")
				must.NoError(t, os.WriteFile(cfg.NVMLLibrary, tc.content, 0o600))
			}
			host, err := gpuhost.Open(cfg)
			must.NoError(t, err)
			defer host.Close()
			inv := host.Inventory(context.Background())
			must.StrContains(t, inv.Reason, tc.want)
			must.SliceEmpty(t, inv.GPUs)
			must.SliceEmpty(t, host.Readings(context.Background()).GPUs)
			_, err = host.DriverFiles(context.Background())
			must.ErrorIs(t, err, gpuhost.ErrNoDriverFiles)
		})
	}
}

// TestUnloadAndLoad: GPUs are withdrawn with the driver and come back with it,
// without a restart (cases DEV-19).
func TestUnloadAndLoad(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Unload())
	host := open(t, sim)
	inv := host.Inventory(context.Background())
	must.StrContains(t, inv.Reason, "not loaded")
	must.SliceEmpty(t, inv.GPUs)
	must.NoError(t, sim.Load())
	inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Reason == "" && len(i.GPUs) == 4 })
	must.NoError(t, sim.Unload())
	inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Reason != "" && len(i.GPUs) == 0 })
}

// TestNotYet: a driver that is not complete, or has no GPU yet, is asked again until it
// has (cases DEV-19).
func TestNotYet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after func(*simhost.Host) error
		want          string
	}{
		"library not found": {everyGPU("nvmlInit", 12), (*simhost.Host).ClearFaults, "NVML cannot be used: nvmlInit_v2: NVML library not found (code 12)"},
		"no GPU":            {emptyBus, fullBus, "driver 352.39 finds no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "k80x4-352")
			must.NoError(t, tc.before(sim))
			host := open(t, sim)
			for range 2 {
				must.StrHasPrefix(t, tc.want, host.Look().Reason)
			}
			must.NoError(t, tc.after(sim))
			must.Len(t, 4, inventory(t, host, unhealthy()).GPUs)
		})
	}
}

// TestUpgrade: another driver takes over in the same process.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	must.Eq(t, "352.39", host.Inventory(context.Background()).Driver.Version)
	must.NoError(t, sim.Upgrade("352.99"))
	inv := inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Driver.Version == "352.99" })
	must.Len(t, 4, inv.GPUs)
	must.Eq(t, "", inv.GPUs[0].Unhealthy)
}

// TestHardLinkOfTheLibrary: a driver volume's hard link to the library is no new
// driver; NVML is not started anew for it.
func TestHardLinkOfTheLibrary(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	inv := inventory(t, host, complete)
	before := sim.Calls()["nvmlShutdown"]
	must.NoError(t, os.Link(inv.Driver.Library, filepath.Join(t.TempDir(), "libnvidia-ml.so.1")))
	must.Len(t, 4, host.Look().GPUs)
	must.Eq(t, before, sim.Calls()["nvmlShutdown"])
}

// TestHalfUpgrade: new libraries beside the old kernel module (cases VOL-05).
func TestHalfUpgrade(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	must.Len(t, 4, host.Inventory(context.Background()).GPUs)
	must.NoError(t, sim.UpgradeLibraries("352.99"))
	const want = "reboot or reload needed: kernel 352.39, library 352.99"
	inv := inventory(t, host, func(i *gpuhost.Inventory) bool { return strings.Contains(i.Reason, want) })
	must.Len(t, 4, inv.GPUs)
	for _, gpu := range inv.GPUs {
		must.StrContains(t, gpu.Unhealthy, want)
	}
	must.Eq(t, "", inv.Driver.Version)
	_, err := host.DriverFiles(context.Background())
	must.ErrorIs(t, err, gpuhost.ErrNoDriverFiles)
}

// TestLost: one lost GPU stays listed, the others are untouched (cases DEV-13).
func TestLost(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	before := host.Inventory(context.Background())
	must.NoError(t, sim.Lose(3))
	inv := inventory(t, host, unhealthy(3))
	must.Eq(t, before.GPUs[3].UUID, inv.GPUs[3].UUID)
	must.StrContains(t, inv.GPUs[3].Unhealthy, "code 15")
	must.StrContains(t, inv.GPUs[3].Unhealthy, inv.GPUs[3].PCIBusID)
	must.Eq(t, "Tesla K80", value(t, inv.GPUs[3].Model))

	now := readings(t, host, func(r *gpuhost.Readings) bool { return len(r.GPUs) == 4 && r.GPUs[3].Err != nil })
	must.Nil(t, now.GPUs[3].TemperatureCelsius)
	must.NotNil(t, now.GPUs[0].TemperatureCelsius)

	must.NoError(t, sim.Restore(3))
	inventory(t, host, unhealthy())
}

func TestFailingQueries(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	host.Inventory(context.Background())
	for _, tc := range []struct {
		call string
		code int
		text string
	}{
		{"nvmlDeviceGetTemperature", 16, "GPU requires a reset (code 16)"},
		{"nvmlDeviceGetTemperature", 999, "unknown error (code 999)"},
	} {
		must.NoError(t, sim.Fail(tc.call, tc.code, 1))
		inv := inventory(t, host, unhealthy(1))
		must.StrContains(t, inv.GPUs[1].Unhealthy, tc.text)
		must.NoError(t, sim.Fail(tc.call, 0, 1))
		inventory(t, host, unhealthy())
	}
}

// TestRecovery: a GPU that had a fault is trusted again only after a quiet time
// (cases DEV-15).
func TestRecovery(t *testing.T) {
	t.Parallel()
	lostAndBack := func(t *testing.T, quiet time.Duration) (*gpuhost.Host, time.Time) {
		sim := simulated(t, "k80x4-352")
		host := open(t, sim, func(c *gpuhost.Config) { c.HealthyAfter = quiet })
		host.Inventory(context.Background())
		lost := time.Now()
		must.NoError(t, sim.Lose(0))
		inventory(t, host, unhealthy(0))
		must.NoError(t, sim.Restore(0))
		return host, lost
	}
	t.Run("not yet", func(t *testing.T) {
		t.Parallel()
		host, _ := lostAndBack(t, time.Hour)
		inv := inventory(t, host, func(i *gpuhost.Inventory) bool {
			return strings.Contains(i.GPUs[0].Unhealthy, "answers again")
		})
		must.StrContains(t, inv.GPUs[0].Unhealthy,
			"GPU is lost (code 15) at 0000:06:00.0; answers again, trusted after 1h0m0s without a fault")
	})
	t.Run("trusted", func(t *testing.T) {
		t.Parallel()
		host, lost := lostAndBack(t, time.Second)
		inventory(t, host, unhealthy())
		must.GreaterEq(t, time.Second, time.Since(lost))
	})
}

// TestRecovery_memory: a GPU that had a fault has to tell its memory before it is
// trusted again (cases DEV-15).
func TestRecovery_memory(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	host.Look()
	must.NoError(t, sim.Lose(0))
	must.True(t, unhealthy(0)(host.Look()))
	must.NoError(t, sim.Fail("nvmlDeviceGetMemoryInfo", 999, 0))
	must.NoError(t, sim.Restore(0))
	for range 3 {
		must.Eq(t, "unknown error (code 999) at 0000:06:00.0", host.Look().GPUs[0].Unhealthy)
	}
	must.NoError(t, sim.ClearFaults())
	inventory(t, host, unhealthy())
}

// TestUnsupportedProperties: what a card does not tell is nil and removes nothing.
func TestUnsupportedProperties(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	for _, call := range []string{
		"nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetMaxClockInfo",
		"nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetEccMode", "nvmlDeviceGetEncoderUtilization",
		"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode",
	} {
		must.NoError(t, sim.Fail(call, 3, 0))
	}
	host := open(t, sim)
	inv := host.Inventory(context.Background())
	must.Len(t, 4, inv.GPUs)
	gpu := inv.GPUs[0]
	must.Eq(t, "", gpu.Unhealthy)
	must.Nil(t, gpu.BAR1TotalBytes)
	must.Nil(t, gpu.PowerLimitMilliwatts)
	must.Nil(t, gpu.MaxSMClockMHz)
	must.Nil(t, gpu.PCIeBandwidthMBps)
	must.Eq(t, "Tesla K80", value(t, gpu.Model))
	must.NotNil(t, inv.GPUs[1].BAR1TotalBytes)
	now := host.Readings(context.Background())
	must.NoError(t, now.GPUs[0].Err)
	must.Nil(t, now.GPUs[0].EncoderPercent)
	must.Nil(t, now.GPUs[0].Processes)
	must.NotNil(t, now.GPUs[0].PowerMilliwatts)
}

// TestHang: a hanging call makes its GPU unhealthy and blocks nothing else; it is
// not made again while it hangs.
func TestHang(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim, func(c *gpuhost.Config) { c.CallLimit = 300 * time.Millisecond })
	host.Inventory(context.Background())
	must.NoError(t, sim.Slow("nvmlDeviceGetTemperature", time.Hour, 2))
	inv := inventory(t, host, unhealthy(2))
	must.Eq(t, "NVML does not answer (nvmlDeviceGetTemperature took longer than 300ms)", inv.GPUs[2].Unhealthy)

	must.NoError(t, sim.ResetCalls())
	var hung *gpuhost.HungError
	now := readings(t, host, func(r *gpuhost.Readings) bool { return len(r.GPUs) == 4 && errors.As(r.GPUs[2].Err, &hung) })
	must.NotNil(t, now.GPUs[1].TemperatureCelsius)
	start := time.Now()
	inventory(t, host, func(i *gpuhost.Inventory) bool { return time.Since(start) > 2500*time.Millisecond && unhealthy(2)(i) })

	must.NoError(t, sim.Slow("nvmlDeviceGetTemperature", 0, 2))
	inventory(t, host, unhealthy())
}

// TestHangAtStart: NVML that hangs as a whole is a reason, and found out in time.
func TestHangAtStart(t *testing.T) {
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Slow("nvmlInit", time.Hour, -1))
	host := open(t, sim)
	start := time.Now()
	host.Inventory(context.Background())
	must.Less(t, 3*time.Second, time.Since(start))
	inv := inventory(t, host, func(i *gpuhost.Inventory) bool { return strings.Contains(i.Reason, "NVML does not answer (nvmlInit") })
	must.SliceEmpty(t, inv.GPUs)
	must.NoError(t, sim.Slow("nvmlInit", 0, -1))
	inventory(t, host, func(i *gpuhost.Inventory) bool { return len(i.GPUs) == 4 })
}

// TestSlowStart: a start that takes longer than anybody waits is used when it has
// ended, not made again; it would take that long again (cases DEV-19).
func TestSlowStart(t *testing.T) {
	t.Parallel()
	sim, host := slowStart(t)
	changed, stop := host.Watch()
	defer stop()
	must.NoError(t, sim.Slow("nvmlInit", 0, -1))
	<-changed
	must.Len(t, 4, inventory(t, host, unhealthy()).GPUs)
	must.Eq(t, 1, sim.Calls()["nvmlInit_v2"])
	must.Eq(t, 0, sim.Calls()["nvmlShutdown"])
}

// TestSlowStart_replaced: another driver has come meanwhile.
func TestSlowStart_replaced(t *testing.T) {
	t.Parallel()
	sim, host := slowStart(t)
	changed, stop := host.Watch()
	defer stop()
	must.NoError(t, sim.Slow("nvmlInit", 0, -1))
	<-changed
	must.NoError(t, sim.Upgrade("352.99"))
	inv := inventory(t, host, unhealthy())
	must.Eq(t, "352.99", inv.Driver.Version)
	must.Eq(t, 2, sim.Calls()["nvmlInit_v2"])
	must.Eq(t, 1, sim.Calls()["nvmlShutdown"])
}

// TestSlowStart_closed: nobody wants it any more when it ends.
func TestSlowStart_closed(t *testing.T) {
	t.Parallel()
	sim, host := slowStart(t)
	host.Close()
	must.Eq(t, 0, sim.Calls()["nvmlShutdown"])
	must.NoError(t, sim.Slow("nvmlInit", 0, -1))
	within(t, 20*time.Second, func() bool { return sim.Calls()["nvmlShutdown"] == 1 }, func() any { return sim.Calls() })
}

// slowStart is a host whose NVML hangs while it starts.
func slowStart(t *testing.T) (*simhost.Host, *gpuhost.Host) {
	t.Helper()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Slow("nvmlInit", time.Hour, -1))
	host := open(t, sim, func(c *gpuhost.Config) { c.CallLimit = 300 * time.Millisecond })
	inv := host.Look()
	must.StrContains(t, inv.Reason, "NVML does not answer (")
	must.SliceEmpty(t, inv.GPUs)
	return sim, host
}

// TestSkipped: a GPU without an identity is left out, the rest keep their indexes
// (nvidia-docker-v1 D7).
func TestSkipped(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Fail("nvmlDeviceGetMinorNumber", 3, 1))
	host := open(t, sim)
	inv := host.Inventory(context.Background())
	must.Len(t, 3, inv.GPUs)
	must.Eq(t, 2, inv.GPUs[1].Index)
	must.Len(t, 1, inv.Skipped)
	must.StrContains(t, inv.Skipped[0], "GPU 1")
}

func TestReadings(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	now := host.Readings(context.Background())
	must.Len(t, 4, now.GPUs)
	gpu := now.GPUs[1]
	must.NoError(t, gpu.Err)
	must.Eq(t, 71994, value(t, gpu.PowerMilliwatts))
	must.Eq(t, 41, value(t, gpu.TemperatureCelsius))
	must.Eq(t, 37, value(t, gpu.GPUPercent))
	must.Eq(t, 4, value(t, gpu.MemoryPercent))
	must.Eq(t, 59768831, value(t, gpu.MemoryUsedBytes))
	must.Eq(t, 3145733, value(t, gpu.BAR1UsedBytes))
	must.Eq(t, 562, value(t, gpu.SMClockMHz))
	must.Eq(t, 0, value(t, gpu.ECCL1Errors))
	must.Nil(t, gpu.PCIeRxKBps)
	must.NotNil(t, gpu.Processes)
	must.SliceEmpty(t, gpu.Processes)

	// Who asks for what is there now does not get what others share.
	must.NoError(t, sim.Set(1, map[string]string{"utilization": "38"}))
	now = host.ReadingsNow(context.Background())
	must.Eq(t, 38, value(t, now.GPUs[1].GPUPercent))

	// However many ask, NVML is asked once a second.
	must.NoError(t, sim.ResetCalls())
	for range 100 {
		must.Eq(t, now.Time, host.Readings(context.Background()).Time)
	}
	must.NoError(t, sim.Set(1, map[string]string{"temperature_c": "77"}))
	readings(t, host, func(r *gpuhost.Readings) bool { return value(t, r.GPUs[1].TemperatureCelsius) == 77 })
}

// TestSteadyCalls: a static fact is asked once (at most three calls a GPU and
// inventory), and a sample takes at most 20 calls a GPU.
func TestSteadyCalls(t *testing.T) {
	t.Parallel()
	for profile, gpus := range map[string]int{"k80x4-352": 4, "h200x8-570": 8} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, profile)
			host := open(t, sim)
			must.Len(t, gpus, inventory(t, host, complete).GPUs)
			host.Sample()
			host.Sample()
			must.NoError(t, sim.ResetCalls())
			host.Look()
			must.LessEq(t, uint64(3*gpus+1), total(sim))

			must.NoError(t, sim.ResetCalls())
			host.Sample()
			must.LessEq(t, uint64(20*gpus), total(sim))
		})
	}
}

func total(sim *simhost.Host) uint64 {
	var sum uint64
	for _, n := range sim.Calls() {
		sum += n
	}
	return sum
}

func TestDriverFiles_k80(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	files, err := open(t, sim).DriverFiles(context.Background())
	must.NoError(t, err)
	must.Eq(t, "352.39", files.Version)
	classes := make(map[int]int)
	for _, library := range files.Libraries {
		must.True(t, exists(library.Path))
		must.Eq(t, filepath.Base(library.Path), library.Name)
		classes[library.Bits]++
	}
	must.Greater(t, 14, classes[64])
	must.Greater(t, 14, classes[32])
	at := slices.IndexFunc(files.Libraries, func(l gpuhost.Library) bool { return l.Name == "libcuda.so.352.39" && l.Bits == 64 })
	must.NonNegative(t, at)
	cuda := files.Libraries[at]
	must.Eq(t, "libcuda.so.1", cuda.SONAME)
	must.SliceContains(t, cuda.Links, "libcuda.so")
	var tools []string
	for _, binary := range files.Binaries {
		tools = append(tools, binary.Name)
	}
	must.SliceContainsAll(t, tools, []string{
		"nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-debugdump", "nvidia-persistenced", "nvidia-smi",
	})
}

// TestLostBeforeStart: a GPU that was lost before we started is listed too, as
// the kernel module knows who it is (cases DEV-13, DEV-15).
func TestLostBeforeStart(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "titanx4-361")
	want := open(t, sim).Inventory(context.Background())
	must.NoError(t, sim.Lose(2))
	inv := open(t, sim).Inventory(context.Background())
	must.True(t, unhealthy(2)(inv), must.Sprintf("%+v", inv))
	must.Eq(t, want.GPUs[2].UUID, inv.GPUs[2].UUID)
	must.Eq(t, want.GPUs[2].Minor, inv.GPUs[2].Minor)
	must.StrContains(t, inv.GPUs[2].Unhealthy, "code 15")
}

// TestInvisible: the PCI bus has four GPUs, NVML three (cases DEV-17), and the
// fourth comes back without a restart (DEV-18).
func TestInvisible(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	before := host.Inventory(context.Background())
	must.NoError(t, sim.Unload())
	inventory(t, host, func(i *gpuhost.Inventory) bool { return len(i.GPUs) == 0 })
	must.NoError(t, sim.Set(1, map[string]string{"present": "false"}))
	must.NoError(t, sim.Load())
	inv := inventory(t, host, func(i *gpuhost.Inventory) bool { return len(i.GPUs) == 4 })
	gone := inv.GPUs[3]
	must.Eq(t, before.GPUs[1].UUID, gone.UUID)
	must.StrContains(t, gone.Unhealthy, "not visible to NVML at 0000:07:00.0")
	must.Eq(t, "", inv.GPUs[0].Unhealthy)
	must.Error(t, host.Readings(context.Background()).GPUs[3].Err)

	// A new process has never seen it, so it can only say that it is there.
	fresh := open(t, sim)
	inv = fresh.Inventory(context.Background())
	fresh.Close() // both use one library, which counts its GPUs anew when nobody uses it
	must.Len(t, 3, inv.GPUs)
	must.SliceContains(t, inv.Skipped, "GPU not visible to NVML at 0000:07:00.0; see the kernel log")

	must.NoError(t, sim.Set(1, map[string]string{"present": "true"}))
	inventory(t, host, func(i *gpuhost.Inventory) bool { return len(i.GPUs) == 4 && unhealthy()(i) })
}

// TestRemoved: a card that is taken off the PCI bus is gone, and there again when it is
// put back, without a restart (cases DEV-18).
func TestRemoved(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	host := open(t, sim)
	before := host.Look()
	function := filepath.Join(sim.Root(), "sys/bus/pci/devices/0000:07:00.0")
	away := filepath.Join(t.TempDir(), "0000:07:00.0")
	must.NoError(t, os.Rename(function, away))
	must.NoError(t, sim.Set(1, map[string]string{"present": "false"}))
	now := host.Look()
	must.Len(t, 3, now.GPUs)
	must.True(t, unhealthy()(now))
	must.SliceEmpty(t, now.Skipped)
	must.Eq(t, before.GPUs[2].UUID, now.GPUs[1].UUID)

	must.NoError(t, os.Rename(away, function))
	must.NoError(t, sim.Set(1, map[string]string{"present": "true"}))
	must.Eq(t, before.GPUs[1].UUID, inventory(t, host, func(i *gpuhost.Inventory) bool { return len(i.GPUs) == 4 }).GPUs[1].UUID)
}

// TestVersionsFail: a driver that does not tell its version works otherwise, and
// is asked again.
func TestVersionsFail(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Fail("nvmlSystemGetDriverVersion", 999, -1))
	host := open(t, sim)
	inv := host.Inventory(context.Background())
	must.Error(t, inv.Driver.VersionErr)
	must.Eq(t, "", inv.Driver.Version)
	must.Len(t, 4, inv.GPUs)
	must.NoError(t, sim.Fail("nvmlSystemGetDriverVersion", 0, -1))
	inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Driver.Version == "352.39" && i.Driver.VersionErr == nil })
}

// TestCUDAVersion_source: it is told whether the driver reports its CUDA version or
// our table has it; a CUDA that does not start reports it too (cases CMP-01).
func TestCUDAVersion_source(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change    func(*simhost.Host) error
		fromTable bool
	}{
		"libcuda":      {func(*simhost.Host) error { return nil }, false},
		"cuInit fails": {everyGPU("cuInit", 999), false},
		"no libcuda": {func(s *simhost.Host) error {
			return os.Remove(filepath.Join(s.Root(), "usr/lib/x86_64-linux-gnu/libcuda.so.352.39"))
		}, true},
		"version fails": {everyGPU("cuDriverGetVersion", 999), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "k80x4-352")
			must.NoError(t, tc.change(sim))
			driver := open(t, sim).Look().Driver
			must.Eq(t, "7.5", driver.CUDA.String())
			must.Eq(t, tc.fromTable, driver.CUDAFromTable)
			want := "7.5"
			if tc.fromTable {
				want = ""
			}
			must.Eq(t, want, driver.ReportedCUDA())
		})
	}
}
