// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestLayout looks at what a driver root holds beside the libraries.
func TestLayout(t *testing.T) {
	h := up(t, "titanx4-361")
	for _, path := range []string{"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0", "dev/nvidia3", "proc/driver/nvidia/gpus/0000:0a:00.0/information",
		"usr/lib/x86_64-linux-gnu/libcuda.so", "usr/lib/i386-linux-gnu/libnvidia-ml.so.361.48", "sys/bus/pci/devices/0000:05:00.0/vendor"} {
		must.FileExists(t, filepath.Join(h.Root(), path))
	}
	for _, path := range []string{"dev/nvidia-uvm-tools", "dev/nvidia-modeset", "sys/bus/pci/devices/0000:09:00.0/numa_node"} {
		must.FileNotExists(t, filepath.Join(h.Root(), path))
	}
	node, err := os.ReadFile(filepath.Join(h.Root(), "sys/bus/pci/devices/0000:05:00.0/numa_node"))
	must.NoError(t, err)
	must.Eq(t, "-1\n", string(node))
	info, err := os.Stat(filepath.Join(h.Root(), "dev/nvidia0"))
	must.NoError(t, err)
	must.Eq(t, os.FileMode(0o666), info.Mode().Perm())
}

func TestUpRefuses(t *testing.T) {
	full := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	_, err := simhost.Up(t.Context(), simhost.Options{Root: full, Profile: "k80x4-352"})
	must.ErrorIs(t, err, simhost.ErrNotEmpty)
	_, err = simhost.Up(t.Context(), simhost.Options{Profile: "k80x4-352"})
	must.ErrorContains(t, err, "no directory given")
	root := filepath.Join(t.TempDir(), "root")
	_, err = simhost.Up(t.Context(), simhost.Options{Root: root, Profile: "k90"})
	must.ErrorIs(t, err, simhost.ErrUnknownProfile)
	must.ErrorContains(t, err, `profile "k90": no such profile; use one of a100-mig-535, a100x8-535,`)
	must.DirNotExists(t, root)
}

// TestNoCompiler: without cc and without a cache the error tells the cure.
func TestNoCompiler(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := simhost.Up(t.Context(), simhost.Options{Root: filepath.Join(t.TempDir(), "root"), Profile: "k80x4-352"})
	must.ErrorIs(t, err, simhost.ErrNoCompiler)
	must.ErrorContains(t, err, "apt-get install gcc libc6-dev")
}

func TestDown(t *testing.T) {
	other := t.TempDir()
	_, err := simhost.Open(other)
	must.ErrorIs(t, err, simhost.ErrNotAHost)
	must.DirExists(t, other)
	h := up(t, "k80x4-352")
	must.NoError(t, h.Down())
	must.DirNotExists(t, h.Root())
	must.ErrorIs(t, h.Down(), simhost.ErrNotAHost)
	must.MapEmpty(t, h.Calls())
}

// TestContained: where the state is out of reach, as in a container, the tool
// beside its library works on its own and lists only GPUs with a node in /dev.
func TestContained(t *testing.T) {
	h := up(t, profileFile(t, `{"driver_version":"535.104.05","cuda_driver_version":12020,"devices":[{"nvml":{"name":"Far","uuid":"GPU-1","minor":211}}]}`))
	must.StrContains(t, smi(t, h, "-L"), "Far")
	volume := t.TempDir()
	for from, to := range map[string]string{"usr/bin/nvidia-smi": "bin/nvidia-smi", "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "lib64/libnvidia-ml.so.1"} {
		content, err := os.ReadFile(filepath.Join(h.Root(), from))
		must.NoError(t, err)
		must.NoError(t, os.MkdirAll(filepath.Join(volume, filepath.Dir(to)), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(volume, to), content, 0o700))
	}
	must.NoError(t, h.Down())
	output := runSMI(t, filepath.Join(volume, "bin/nvidia-smi"), "-L")
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		must.StrContains(t, output, "couldn't communicate with the NVIDIA driver")
	}
	must.StrNotContains(t, output, "Far")
	must.StrNotContains(t, output, "couldn't find libnvidia-ml.so")
}
