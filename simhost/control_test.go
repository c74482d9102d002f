// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestSet changes readings of a process that has the library open.
func TestSet(t *testing.T) {
	inChild(t, "k80x4-352", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		d := device(t, lib, 1)
		must.NoError(t, h.Set(1, map[string]string{"temperature": "91", "power": "148.5W", "memory": "1.5GiB", "utilization": "88%",
			"processes": "17:512MiB:python,18:1GiB:", "ecc": "3", "decoder": "null", "persistence_mode": "on"}))
		temperature, _ := d.GetTemperature(nvml.TEMPERATURE_GPU)
		power, _ := d.GetPowerUsage()
		memory, _ := d.GetMemoryInfo()
		busy, _ := d.GetUtilizationRates()
		processes, _ := d.GetComputeRunningProcesses()
		must.Eq(t, "91 148500 1610612736 88 2", fmt.Sprint(temperature, power, memory.Used, busy.Gpu, len(processes)))
		must.Eq(t, 1<<30, processes[1].UsedGpuMemory)
		name, ret := lib.SystemGetProcessName(17)
		must.True(t, name == "python" && ret == nvml.SUCCESS)
		_, ret = lib.SystemGetProcessName(18) // without a name it is gone
		must.Eq(t, nvml.ERROR_NOT_FOUND, ret)
		errors, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		must.True(t, errors == 3 && ret == nvml.SUCCESS)
		_, _, ret = d.GetDecoderUtilization()
		must.Eq(t, nvml.ERROR_NOT_SUPPORTED, ret)
		mode, ret := d.GetPersistenceMode()
		must.True(t, mode == nvml.FEATURE_ENABLED && ret == nvml.SUCCESS)
		other, _ := device(t, lib, 0).GetTemperature(nvml.TEMPERATURE_GPU)
		must.Eq(t, 33, other)
	})
}

func TestSetRefuses(t *testing.T) {
	h := up(t, "k80x4-352")
	for _, tc := range []struct{ name, key, value, want string }{
		{"unknown key", "heat", "1", `there is no reading "heat"; use one of processes, present, mig, temperature`},
		{"no number", "temperature", "hot", `temperature: temperature_c "hot" is not a whole number`},
		{"negative", "power", "-1", `power: "-1" is not a positive number`},
		{"unit", "memory", "5GB", `memory: "5GB" has an unknown unit; use one of`},
		{"flag", "persistence_mode", "maybe", `persistence_mode "maybe" is neither true nor false`},
		{"name table", "brand", "amd", `brand "amd" is unknown; use a number or one of geforce`},
		{"identity", "uuid", "GPU-1", `uuid cannot be changed while the host is up`},
		{"process", "processes", "1", `process "1" does not look like "PID:BYTES:NAME"`},
		{"two lines", "name", "a\nb", `has more than one line`},
		{"no MIG", "mig", "1g.5gb", `mig: this GPU cannot be split`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.ErrorContains(t, h.Set(0, map[string]string{tc.key: tc.value, "fan": "12"}), tc.want)
		})
	}
	must.ErrorContains(t, h.Set(4, map[string]string{"fan": "1"}), "there is no GPU 4; the simulated host has 4, counted from 0")
	must.ErrorContains(t, h.XID(-1, 79), "there is no GPU -1")
	must.ErrorContains(t, h.Fail("nvmlDeviceGetPowr", 3, 0), `no function "nvmlDeviceGetPowr"`)
	must.ErrorContains(t, h.Fail("nvmlDeviceGetPower", 3, 0), "nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetPowerManagementLimitConstraints, nvmlDeviceGetPowerUsage")
	must.ErrorContains(t, h.Upgrade("new"), `driver version "new" must look like "535.104.05"`)
}

// TestLose: one lost GPU answers so to everything, its neighbours do not (cases DEV-13).
func TestLose(t *testing.T) {
	inChild(t, "a100x8-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		d := device(t, lib, 3)
		must.NoError(t, h.Lose(3))
		_, ret := d.GetPowerUsage()
		must.Eq(t, nvml.ERROR_GPU_IS_LOST, ret)
		_, ret = lib.DeviceGetHandleByIndex(3)
		must.Eq(t, nvml.ERROR_GPU_IS_LOST, ret)
		count, _ := lib.DeviceGetCount()
		must.Eq(t, 8, count)
		_, ret = device(t, lib, 4).GetPowerUsage()
		must.Eq(t, nvml.SUCCESS, ret)
		must.NoError(t, h.Restore(3))
		_, ret = d.GetPowerUsage()
		must.Eq(t, nvml.SUCCESS, ret)
	})
}

// TestPresent: a removed GPU is lost at once and gone after a new start, and one
// that comes back is seen after a new start only (cases DEV-18).
func TestPresent(t *testing.T) {
	inChild(t, "k80x4-352", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		gone := device(t, lib, 1)
		node := filepath.Join(h.Root(), "dev/nvidia1")
		must.NoError(t, h.Set(1, map[string]string{"present": "false"}))
		must.FileNotExists(t, node)
		_, ret := gone.GetName()
		must.Eq(t, nvml.ERROR_GPU_IS_LOST, ret)
		counts := func() int {
			must.Eq(t, nvml.SUCCESS, lib.Shutdown())
			must.Eq(t, nvml.SUCCESS, lib.Init())
			count, _ := lib.DeviceGetCount()
			return count
		}
		must.Eq(t, 3, counts())
		minor, _ := device(t, lib, 1).GetMinorNumber()
		must.Eq(t, 2, minor)
		must.NoError(t, h.Set(1, map[string]string{"present": "true"}))
		count, _ := lib.DeviceGetCount()
		must.Eq(t, 3, count)
		must.Eq(t, 4, counts())
		must.FileExists(t, node)
	})
}

func TestFail(t *testing.T) {
	inChild(t, "a100x8-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		ask := func(gpu int) [2]nvml.Return {
			_, one := device(t, lib, gpu).GetMemoryInfo()
			_, two := device(t, lib, gpu).GetMemoryInfo_v2()
			return [2]nvml.Return{one, two}
		}
		ok, unsupported, unknown := nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_UNKNOWN
		must.NoError(t, h.Fail("nvmlDeviceGetMemoryInfo", 3, 2)) // all versions
		must.Eq(t, [2]nvml.Return{unsupported, unsupported}, ask(2))
		must.Eq(t, [2]nvml.Return{ok, ok}, ask(1))
		must.NoError(t, h.Fail("nvmlDeviceGetMemoryInfo_v2", 0, 2))
		must.Eq(t, [2]nvml.Return{unsupported, ok}, ask(2))
		must.NoError(t, h.Fail("nvmlDeviceGetMemoryInfo_v1", 999, simhost.AllGPUs))
		must.Eq(t, [2]nvml.Return{unknown, ok}, ask(5))
		must.Eq(t, [2]nvml.Return{unsupported, ok}, ask(2)) // the GPU's own fault first
		must.NoError(t, h.ClearFaults())
		must.Eq(t, [2]nvml.Return{ok, ok}, ask(2))
		must.NoError(t, h.Fail("nvmlDeviceGetHandleByIndex", 15, 6))
		_, ret := lib.DeviceGetHandleByIndex(6)
		must.Eq(t, nvml.ERROR_GPU_IS_LOST, ret)
		must.NoError(t, h.Fail("*", 18, simhost.AllGPUs))
		_, ret = lib.SystemGetDriverVersion()
		must.Eq(t, nvml.ERROR_LIB_RM_VERSION_MISMATCH, ret)
	})
}

// TestSlow: a delay holds up its GPU only, and a hang ends when it is taken back.
func TestSlow(t *testing.T) {
	inChild(t, "k80x4-352", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		must.NoError(t, h.Slow("nvmlDeviceGetTemperature", 200*time.Millisecond, 1))
		start := time.Now()
		_, ret := device(t, lib, 1).GetTemperature(nvml.TEMPERATURE_GPU)
		must.Eq(t, nvml.SUCCESS, ret)
		must.GreaterEq(t, 200*time.Millisecond, time.Since(start))

		must.NoError(t, h.Slow("nvmlDeviceGetTemperature", time.Hour, 1))
		hung := make(chan nvml.Return, 1)
		go func() {
			_, ret := device(t, lib, 1).GetTemperature(nvml.TEMPERATURE_GPU)
			hung <- ret
		}()
		before := h.Calls()["nvmlDeviceGetTemperature"]
		waitFor(t, func() bool { return h.Calls()["nvmlDeviceGetTemperature"] > 1 || before > 1 })
		_, ret = device(t, lib, 0).GetTemperature(nvml.TEMPERATURE_GPU)
		must.Eq(t, nvml.SUCCESS, ret)
		select {
		case ret := <-hung:
			t.Fatal("the slow call ended", ret)
		default:
		}
		must.NoError(t, h.Slow("nvmlDeviceGetTemperature", 0, 1))
		select {
		case ret := <-hung:
			must.Eq(t, nvml.SUCCESS, ret)
		case <-time.After(soon):
			t.Fatal("the call still hangs")
		}
	})
}

// waitFor polls a condition of another process or goroutine.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.After(soon)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the condition never came")
		}
	}
}

// TestUnload: without its kernel module the host shows nothing of a driver but
// the files, in processes that began before too (cases DEV-19).
func TestUnload(t *testing.T) {
	inChild(t, "a100-mig-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		d := device(t, lib, 0)
		must.NoError(t, h.Unload())
		_, ret := d.GetName()
		must.Eq(t, nvml.ERROR_DRIVER_NOT_LOADED, ret)
		must.Eq(t, nvml.ERROR_DRIVER_NOT_LOADED, lib.Init())
		must.FileNotExists(t, filepath.Join(h.Root(), "proc/driver/nvidia/version"))
		nodes, _ := filepath.Glob(filepath.Join(h.Root(), "dev/*"))
		must.SliceEmpty(t, nodes)
		must.NoError(t, h.Load())
		_, ret = d.GetName()
		must.Eq(t, nvml.SUCCESS, ret)
		must.FileContains(t, filepath.Join(h.Root(), "proc/driver/nvidia/version"), "Kernel Module  535.104.05  ")
		must.FileExists(t, filepath.Join(h.Root(), "dev/nvidia-caps/nvidia-cap201"))
		must.FileContains(t, filepath.Join(h.Root(), "proc/driver/nvidia-caps/mig-minors"), "gpu1/gi7/access 201\ngpu1/gi7/ci0/access 202\n")
	})
}

// TestUpgrade: new files under new names, the old library no longer fits.
func TestUpgrade(t *testing.T) {
	inChild(t, "k80x4-352", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		libraries := filepath.Join(h.Root(), "usr/lib/x86_64-linux-gnu")
		before, err := os.Stat(libraryPath(h))
		must.NoError(t, err)
		must.NoError(t, h.Upgrade("375.66"))
		_, ret := lib.SystemGetDriverVersion()
		must.Eq(t, nvml.ERROR_LIB_RM_VERSION_MISMATCH, ret)
		after, err := os.Stat(libraryPath(h))
		must.NoError(t, err)
		must.False(t, os.SameFile(before, after))
		must.FileNotExists(t, filepath.Join(libraries, "libcuda.so.352.39"))
		must.FileExists(t, filepath.Join(libraries, "libcuda.so.375.66"))
		must.FileExists(t, filepath.Join(libraries, "libnvidia-fatbinaryloader.so.375.66"))
		must.FileContains(t, filepath.Join(h.Root(), "proc/driver/nvidia/version"), "  375.66  ")
		must.StrContains(t, smi(t, h), "Driver Version: 375.66")

		must.NoError(t, h.UpgradeLibraries("384.145"))
		must.FileContains(t, filepath.Join(h.Root(), "proc/driver/nvidia/version"), "  375.66  ")
		must.StrContains(t, smi(t, h), "Driver/library version mismatch")
		must.NoError(t, h.Unload())
		must.NoError(t, h.Load())
		must.StrContains(t, smi(t, h), "Driver Version: 384.145")
	})
}

// TestCalls: calls of several processes add up, function by function.
func TestCalls(t *testing.T) {
	h := up(t, "k80x4-352")
	must.MapEmpty(t, h.Calls())
	for range 3 {
		smi(t, h, "-L")
	}
	calls := h.Calls()
	must.Eq(t, 3, calls["nvmlInit_v2"])
	must.Eq(t, 12, calls["nvmlDeviceGetUUID"])
	must.MapNotContainsKey(t, calls, "nvmlDeviceGetPowerUsage")
	must.NoError(t, h.ResetCalls())
	must.MapEmpty(t, h.Calls())
}

// TestConcurrentSet: changes made at the same time are all kept, and readers
// never see half of one.
func TestConcurrentSet(t *testing.T) {
	inChild(t, "a100x8-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		for i := range 8 {
			must.NoError(t, h.Set(i, map[string]string{"util_gpu_pct": "0", "util_mem_pct": "0"}))
		}
		stop := make(chan struct{})
		var readers, writers sync.WaitGroup
		for i := range 8 {
			d := device(t, lib, i)
			writers.Go(func() {
				for n := range 20 {
					if err := h.Set(i, map[string]string{"util_gpu_pct": fmt.Sprint(n), "util_mem_pct": fmt.Sprint(n)}); err != nil {
						t.Error(err)
					}
				}
			})
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if u, ret := d.GetUtilizationRates(); ret != nvml.SUCCESS || u.Gpu != u.Memory {
						t.Error(u, ret)
						return
					}
				}
			})
		}
		writers.Wait()
		close(stop)
		readers.Wait()
		for i := range 8 {
			u, _ := device(t, lib, i).GetUtilizationRates()
			must.Eq(t, "19 19", fmt.Sprint(u.Gpu, u.Memory))
		}
	})
}
