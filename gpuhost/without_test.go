// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestMismatchAtStart: a library that does not fit the kernel module from the start
// leaves the GPUs listed, as the kernel module tells who they are (cases VOL-05).
func TestMismatchAtStart(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "titanx4-361")
	working := open(t, sim).Look()
	must.NoError(t, sim.UpgradeLibraries("361.99"))
	host := open(t, sim)
	inv := host.Look()
	const want = "driver/library version mismatch (code 18); reboot or reload needed: kernel 361.48, library 361.99"
	must.Eq(t, want, inv.Reason)
	must.Len(t, 4, inv.GPUs)
	for i, gpu := range inv.GPUs {
		known := working.GPUs[i]
		must.Eq(t, gpuhost.GPU{
			Index: i, UUID: known.UUID, PCIBusID: known.PCIBusID, Minor: known.Minor, Model: known.Model,
			NUMANode: known.NUMANode, Unhealthy: want,
		}, gpu)
	}
	must.SliceEmpty(t, inv.Skipped)
	for _, reading := range host.Sample().GPUs {
		must.Error(t, reading.Err)
	}

	must.NoError(t, sim.Unload())
	must.SliceEmpty(t, host.Look().GPUs)
	must.NoError(t, sim.Load())
	inv = inventory(t, host, unhealthy())
	must.Eq(t, "361.99", inv.Driver.Version)
	must.Len(t, 4, inv.GPUs)
}

// TestMismatchAtStart_unused: the kernel module has no UUID of a GPU that nobody has
// used since it was loaded.
func TestMismatchAtStart_unused(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.UpgradeLibraries("352.99"))
	file := filepath.Join(sim.Root(), "proc/driver/nvidia/gpus/0000:07:00.0/information")
	must.NoError(t, os.WriteFile(file, []byte("Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 1\n"), 0o600))
	inv := open(t, sim).Look()
	must.Len(t, 3, inv.GPUs)
	must.Len(t, 1, inv.Skipped)
	must.StrHasPrefix(t, "GPU at 0000:07:00.0 has no UUID while NVML fails: driver/library version mismatch", inv.Skipped[0])
}

// TestNouveau: the open driver that holds the GPUs is named, and what to do then
// (cases VOL-10).
func TestNouveau(t *testing.T) {
	t.Parallel()
	const want = `: the driver nouveau holds 0000:06:00.0, 0000:07:00.0, 0000:85:00.0, 0000:86:00.0; install the NVIDIA driver, blacklist nouveau in /etc/modprobe.d, rebuild the initramfs and reboot`
	for name, tc := range map[string]struct {
		change func(*testing.T, *simhost.Host)
		want   string
	}{
		"module not loaded": {func(t *testing.T, sim *simhost.Host) { must.NoError(t, sim.Unload()) }, "the NVIDIA kernel module is not loaded (code 9)"},
		"no library": {func(t *testing.T, sim *simhost.Host) {
			must.NoError(t, sim.Unload())
			must.NoError(t, os.RemoveAll(filepath.Join(sim.Root(), "usr/lib/x86_64-linux-gnu")))
		}, `NVML library not found: no libnvidia-ml.so.1 under`},
		"no GPU left": {func(t *testing.T, sim *simhost.Host) { must.NoError(t, noGPUs(sim)) }, "driver 352.39 finds no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "k80x4-352")
			links, err := filepath.Glob(filepath.Join(sim.Root(), "sys/bus/pci/devices/*/driver"))
			must.NoError(t, err)
			for _, link := range links {
				must.NoError(t, os.Remove(link))
				must.NoError(t, os.Symlink("../../drivers/nouveau", link))
			}
			tc.change(t, sim)
			inv := open(t, sim).Look()
			must.StrHasPrefix(t, tc.want, inv.Reason)
			must.StrContains(t, inv.Reason, want)
			must.SliceEmpty(t, inv.GPUs)
		})
	}
}

// TestUnsupportedHost: machines whose GPUs NVML does not give us are named as such,
// at every look and once in the log (cases DEV-26, DEV-36).
func TestUnsupportedHost(t *testing.T) {
	t.Parallel()
	const wsl, tegra = "WSL2 is not supported", "Tegra not supported"
	release := map[string]string{"etc/nv_tegra_release": "# R36 (release)\n"}
	for name, tc := range map[string]struct {
		files  map[string]string
		change func(*simhost.Host) error
		want   string
	}{
		"WSL2, no minor numbers": {map[string]string{"dev/dxg": ""}, everyGPU("nvmlDeviceGetMinorNumber", 3), wsl},
		"WSL2, NVML fails":       {map[string]string{"dev/dxg": ""}, everyGPU("nvmlInit", 999), wsl},
		"Tegra, NVML fails":      {release, everyGPU("nvmlInit", 999), tegra},
		"Tegra, no driver":       {release, (*simhost.Host).Unload, tegra},
		"Tegra, no GPU":          {map[string]string{"sys/firmware/devicetree/base/compatible": "nvidia,p3701\x00nvidia,tegra234\x00"}, emptyBus, tegra},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "k80x4-352")
			writeAll(t, sim, tc.files)
			must.NoError(t, tc.change(sim))
			var log lines
			host := open(t, sim, logging(&log))
			for range 3 {
				inv := host.Look()
				must.StrHasPrefix(t, tc.want, inv.Reason)
				must.SliceEmpty(t, inv.GPUs)
			}
			must.Len(t, 1, log.with(tc.want))
		})
	}
}

// TestUnsupportedHost_works: a board whose NVML works is a host like any other, also
// when its driver goes (cases DEV-36).
func TestUnsupportedHost_works(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "gb10-580")
	writeAll(t, sim, map[string]string{"etc/nv_tegra_release": "# R39 (release)\n"})
	host := open(t, sim)
	inv := host.Look()
	must.Eq(t, "", inv.Reason)
	must.True(t, unhealthy()(inv))
	must.NoError(t, sim.Unload())
	must.StrContains(t, host.Look().Reason, "the NVIDIA kernel module is not loaded")
}

func everyGPU(call string, code int) func(*simhost.Host) error {
	return func(s *simhost.Host) error { return s.Fail(call, code, simhost.AllGPUs) }
}

// noGPUs takes all GPUs away from the driver, fourGPUs gives them back.
func noGPUs(s *simhost.Host) error   { return setPresent(s, "false") }
func fourGPUs(s *simhost.Host) error { return setPresent(s, "true") }

func setPresent(s *simhost.Host, present string) error {
	for gpu := range 4 {
		if err := s.Set(gpu, map[string]string{"present": present}); err != nil {
			return err
		}
	}
	return nil
}

// emptyBus takes all GPUs away, from the PCI bus too, fullBus gives them back.
func emptyBus(s *simhost.Host) error {
	bus := filepath.Join(s.Root(), "sys/bus/pci/devices")
	return errors.Join(os.Rename(bus, bus+".away"), os.Mkdir(bus, 0o755), noGPUs(s))
}

func fullBus(s *simhost.Host) error {
	bus := filepath.Join(s.Root(), "sys/bus/pci/devices")
	return errors.Join(os.Remove(bus), os.Rename(bus+".away", bus), fourGPUs(s))
}

func writeAll(t *testing.T, sim *simhost.Host, files map[string]string) {
	t.Helper()
	for path, content := range files {
		full := filepath.Join(sim.Root(), path)
		must.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must.NoError(t, os.WriteFile(full, []byte(content), 0o600))
	}
}
