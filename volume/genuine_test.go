// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build genuine

package volume

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// genuineHost is a host with NVIDIA's own files, as testdata/fetch-genuine.sh
// unpacks them, and a simulated NVML that says their driver is loaded.
func genuineHost(t testing.TB, set string) (*gpuhost.Host, string) {
	base := os.Getenv("GPU_DOCKER_GENUINE")
	if base == "" {
		t.Fatal("GPU_DOCKER_GENUINE is not set; run testdata/fetch-genuine.sh DIR and name DIR")
	}
	root, err := filepath.Abs(filepath.Join(base, set))
	must.NoError(t, err)
	cuda, err := filepath.Glob(filepath.Join(root, "usr/lib/x86_64-linux-gnu/nvidia/*/libcuda.so.*.*"))
	must.NoError(t, err)
	must.Len(t, 1, cuda)
	_, version, ok := splitLibrary(filepath.Base(cuda[0]))
	must.True(t, ok)

	sim, err := simhost.Up(t.Context(), simhost.Options{Root: filepath.Join(t.TempDir(), "sim"), Profile: "k80x4-352"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	must.NoError(t, sim.Upgrade(version))
	host, err := gpuhost.Open(gpuhost.Config{DriverRoot: root, NVMLLibrary: filepath.Join(sim.Root(), "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")})
	must.NoError(t, err)
	t.Cleanup(host.Close)
	return host, version
}

func TestGenuine(t *testing.T) {
	for _, tc := range []struct {
		set  string
		want string // lines of the tree, V for the version
	}{
		{"550", `bin/nvidia-smi bin/nvidia-debugdump bin/nvidia-persistenced bin/nvidia-cuda-mps-control bin/nvidia-cuda-mps-server
			lib64/libcuda.so.V lib64/libcuda.so.1 lib64/libcuda.so lib64/libnvidia-ml.so.1 lib64/libnvidia-ml.so lib64/libnvidia-nvvm.so.4
			lib64/libnvidia-gpucomp.so.V lib64/libnvidia-glcore.so.V lib64/libGLX_indirect.so.0 lib64/libvdpau_nvidia.so.1 lib64/libnvidia-cfg.so.1
			lib64/libnvidia-encode.so lib64/libnvidia-opticalflow.so lib64/gbm/nvidia-drm_gbm.so lib64/libcudadebugger.so.1
			lib64/libnvidia-pkcs11-openssl3.so.V lib/libcuda.so.1 lib/libnvidia-ml.so.1
			share/vulkan/icd.d/nvidia_icd.json share/glvnd/egl_vendor.d/10_nvidia.json share/OpenCL/vendors/nvidia.icd`},
		{"535", `bin/nvidia-smi bin/nvidia-cuda-mps-server lib64/libcuda.so.V lib64/libnvidia-ptxjitcompiler.so.1 lib64/libnvcuvid.so.1 lib64/libnvidia-cfg.so.1`},
		{"470", `bin/nvidia-smi lib64/libcuda.so.V lib64/libnvidia-nvvm.so.4.0.0 lib64/libnvidia-nvvm.so.4`},
		{"390", `bin/nvidia-smi lib64/libcuda.so.V lib64/libnvidia-fatbinaryloader.so.V lib64/libnvidia-ptxjitcompiler.so.1`},
	} {
		t.Run(tc.set, func(t *testing.T) {
			host, version := genuineHost(t, tc.set)
			s := newStore(t, Config{}, host)
			v, err := s.Ensure(t.Context())
			must.NoError(t, err)
			tree := listTree(t, v.Mountpoint)
			t.Logf("%d entries:\n%s", len(tree), strings.Join(tree, "\n"))
			for name := range strings.FieldsSeq(strings.ReplaceAll(tc.want, "V", version)) {
				must.SliceContains(t, plainTree(tree), name)
			}
			m, err := s.Manifest(version)
			must.NoError(t, err)
			t.Logf("%d bytes, missing %q", m.Bytes(), m.Missing)
			checkGenuine(t, v.Mountpoint, version)
		})
	}
}

// checkGenuine checks what holds for every driver: classes are apart, versions
// are not mixed, links lead to files.
func checkGenuine(t *testing.T, tree, version string) {
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		must.NoError(t, err)
		_, err = os.Stat(path)
		must.NoError(t, err)
		if stem, suffix, ok := splitLibrary(d.Name()); ok && d.Type().IsRegular() {
			l, elf := readLibrary(t, path)
			must.True(t, elf, must.Sprint(path))
			must.Eq(t, filepath.Base(filepath.Dir(path)), libDir(&l), must.Sprint(path))
			if driverVersion.MatchString(suffix) && libraryRules[stem].origin == ofDriver {
				must.Eq(t, version, suffix, must.Sprint(path))
			}
		}
		return nil
	})
	must.NoError(t, err)
}

// BenchmarkGenuineBuild builds the 550 volume by each method on the file system
// of the driver files, and makes the same links with cp for comparison.
func BenchmarkGenuineBuild(b *testing.B) {
	host, version := genuineHost(b, "550")
	base := os.Getenv("GPU_DOCKER_GENUINE")
	for _, tc := range []struct {
		name   string
		files  Files
		link   bool
		method Method
	}{
		{"link", FilesLink, true, MethodLink},
		{"reflink", FilesAuto, false, MethodReflink},
		{"copy", FilesCopy, false, MethodCopy},
	} {
		b.Run(tc.name, func(b *testing.B) {
			var took uint64
			for b.Loop() {
				dir, err := os.MkdirTemp(base, "bench-")
				must.NoError(b, err)
				s := newStore(b, Config{Dir: filepath.Join(dir, "volumes"), Files: tc.files}, host)
				s.cloner.link = tc.link
				before := freeBytes(b, base)
				_, err = s.Ensure(b.Context())
				must.NoError(b, err)
				took = before - freeBytes(b, base)
				b.StopTimer()
				m, err := s.Manifest(version)
				must.NoError(b, err)
				if m.Files[0].Method != tc.method {
					b.Logf("this file system made %q instead of %q", m.Files[0].Method, tc.method)
				}
				must.NoError(b, os.RemoveAll(dir))
				b.StartTimer()
			}
			b.ReportMetric(float64(int64(took))/1e6, "MB-taken")
		})
	}
	b.Run("cp -al", func(b *testing.B) {
		dir, err := os.MkdirTemp(base, "bench-")
		must.NoError(b, err)
		s := newStore(b, Config{Dir: filepath.Join(dir, "volumes")}, host)
		v, err := s.Ensure(b.Context())
		must.NoError(b, err)
		for b.Loop() {
			must.NoError(b, exec.Command("cp", "-al", v.Mountpoint, filepath.Join(dir, "twin")).Run())
			b.StopTimer()
			must.NoError(b, os.RemoveAll(filepath.Join(dir, "twin")))
			b.StartTimer()
		}
		must.NoError(b, os.RemoveAll(dir))
	})
}

func freeBytes(b *testing.B, dir string) uint64 {
	syscall.Sync()
	var st syscall.Statfs_t
	must.NoError(b, syscall.Statfs(dir, &st))
	return st.Bfree * uint64(st.Bsize)
}
