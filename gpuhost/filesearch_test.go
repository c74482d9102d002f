// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// fakeRoot is a root file system in the making.
type fakeRoot struct {
	t    *testing.T
	root root
	elf  []byte // a shared object
}

func newFakeRoot(t *testing.T) *fakeRoot {
	t.Helper()
	elf, err := os.ReadFile(buildLibrary(t, "int fake;", "-Wl,-soname,libfake.so.1"))
	must.NoError(t, err)
	return &fakeRoot{t: t, root: root(t.TempDir()), elf: elf}
}

func (f *fakeRoot) write(path string, content []byte) {
	f.t.Helper()
	place := filepath.Join(string(f.root), path)
	must.NoError(f.t, os.MkdirAll(filepath.Dir(place), 0o755))
	must.NoError(f.t, os.WriteFile(place, content, 0o755))
}

// library puts shared objects.
func (f *fakeRoot) library(paths ...string) {
	f.t.Helper()
	for _, path := range paths {
		f.write(path, f.elf)
	}
}

func (f *fakeRoot) link(path, target string) {
	f.t.Helper()
	place := filepath.Join(string(f.root), path)
	must.NoError(f.t, os.MkdirAll(filepath.Dir(place), 0o755))
	must.NoError(f.t, os.Symlink(target, place))
}

// search looks for a version and gives the places inside the root.
func (f *fakeRoot) search(version string) (*fileSearch, []string) {
	f.t.Helper()
	s := newFileSearch(f.root, version)
	s.run()
	var places []string
	for _, library := range s.libraries {
		places = append(places, f.root.inside(library.Path))
	}
	return s, places
}

// TestFileSearch_debian: sonames lead through the alternatives system, whose
// absolute links count inside the root; several branches lie side by side.
func TestFileSearch_debian(t *testing.T) {
	f := newFakeRoot(t)
	const lib, current = "/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/nvidia/current"
	f.library(
		current+"/libcuda.so.550.163.01", current+"/libnvidia-ml.so.550.163.01", lib+"/libnvidia-gpucomp.so.550.163.01",
		lib+"/vdpau/libvdpau_nvidia.so.550.163.01", lib+"/nvidia/libnvidia-cfg.so.550.163.01", lib+"/libnvidia-egl-gbm.so.1.1.2",
		"/usr/lib/x86_64-linux-gnu/nvidia/legacy-390xx/libcuda.so.390.157", lib+"/libglxserver_nvidia.so.550.163.01",
	)
	f.link("/etc/alternatives/nvidia--libcuda.so.1-x86_64-linux-gnu", current+"/libcuda.so.1")
	f.link(current+"/libcuda.so.1", "libcuda.so.550.163.01")
	f.link(lib+"/libcuda.so.1", "/etc/alternatives/nvidia--libcuda.so.1-x86_64-linux-gnu")
	f.link(lib+"/libcuda.so", "libcuda.so.1")
	f.write("/etc/ld.so.cache", newCache([]cacheLine{{"libcuda.so.1", lib + "/libcuda.so.1", flagX8664 | flagELFLibc6}}))
	s, places := f.search("550.163.01")
	must.NoError(t, s.complete())
	must.Eq(t, current+"/libcuda.so.550.163.01", places[0])
	must.SliceContainsAll(t, places, []string{
		current + "/libcuda.so.550.163.01", current + "/libnvidia-ml.so.550.163.01", lib + "/libnvidia-gpucomp.so.550.163.01",
		lib + "/vdpau/libvdpau_nvidia.so.550.163.01", lib + "/nvidia/libnvidia-cfg.so.550.163.01", lib + "/libnvidia-egl-gbm.so.1.1.2",
	})
	must.SliceContains(t, s.libraries[0].Links, "libcuda.so")
}

// TestFileSearch_noCache: NixOS and its like have no loader cache.
func TestFileSearch_noCache(t *testing.T) {
	f := newFakeRoot(t)
	f.library("/nix/store/abc-nvidia-x11-570.26/lib/libcuda.so.570.26")
	f.link("/run/opengl-driver/lib/libcuda.so.570.26", "/nix/store/abc-nvidia-x11-570.26/lib/libcuda.so.570.26")
	s, places := f.search("570.26")
	must.NoError(t, s.complete())
	must.Eq(t, []string{"/nix/store/abc-nvidia-x11-570.26/lib/libcuda.so.570.26"}, places)
}

// TestFileSearch_unversioned: NVVM of branch 470 has no version in its name.
func TestFileSearch_unversioned(t *testing.T) {
	f := newFakeRoot(t)
	f.library("/usr/lib64/libcuda.so.470.256.02", "/usr/lib64/libnvidia-nvvm.so.4.0.0", "/usr/lib64/libnvidia-nvvm70.so.4")
	_, places := f.search("470.256.02")
	must.Len(t, 3, places)
}

// TestFileSearch_escape: a link never leads out of the root.
func TestFileSearch_escape(t *testing.T) {
	f := newFakeRoot(t)
	outside := filepath.Join(t.TempDir(), "libcuda.so.570.26")
	must.NoError(t, os.WriteFile(outside, f.elf, 0o600))
	f.link("/usr/lib64/libcuda.so.570.26", outside)
	f.link("/usr/lib64/libnvidia-ml.so.570.26", "../../../../../../../../.."+outside)
	f.link("/usr/lib64/liba.so.570.26", "liba.so.570.26")
	_, places := f.search("570.26")
	must.SliceEmpty(t, places)
}

// TestFileSearch_broken: what is no library is left out, the rest stays.
func TestFileSearch_broken(t *testing.T) {
	f := newFakeRoot(t)
	f.library("/usr/lib64/libcuda.so.570.26")
	f.write("/usr/lib64/libnvidia-ml.so.570.26", []byte("#!/bin/sh\n"))
	f.write("/usr/lib64/libnvidia-cfg.so.570.26", f.elf[:len(f.elf)/2])
	f.write("/etc/ld.so.cache", []byte("garbage"))
	_, places := f.search("570.26")
	must.Eq(t, []string{"/usr/lib64/libcuda.so.570.26"}, places)
}

// TestFileSearch_faults: what is missing is named.
func TestFileSearch_faults(t *testing.T) {
	f := newFakeRoot(t)
	s, _ := f.search("570.26")
	must.ErrorIs(t, s.complete(), ErrNoDriverFiles)
	must.ErrorContains(t, s.complete(), "no 64-bit libcuda.so.570.26 under")
	must.ErrorContains(t, s.complete(), "/usr/lib64")

	f.library("/usr/lib64/libcuda.so.575.51", "/usr/lib64/libother.so.570.26")
	f.link("/usr/lib64/libcuda.so.1", "libcuda.so.575.51")
	s, _ = f.search("570.26")
	must.ErrorContains(t, s.complete(), "driver libraries are 575.51, kernel module is 570.26: reboot or reload")
}

func TestBinaries(t *testing.T) {
	f := newFakeRoot(t)
	f.write("/usr/lib/nvidia/current/nvidia-smi", []byte("#!/bin/sh\n"))
	f.link("/etc/alternatives/nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi")
	f.link("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia-smi")
	f.write("/usr/sbin/nvidia-cuda-mps-server", f.elf)
	f.write("/usr/bin/nvidia-modprobe", f.elf)
	must.Eq(t, []Binary{
		{Path: filepath.Join(string(f.root), "/usr/sbin/nvidia-cuda-mps-server"), Name: "nvidia-cuda-mps-server"},
		{Path: filepath.Join(string(f.root), "/usr/lib/nvidia/current/nvidia-smi"), Name: "nvidia-smi"},
	}, f.root.binaries())
}

func TestDataFiles(t *testing.T) {
	f := newFakeRoot(t)
	for _, path := range []string{
		"/usr/share/vulkan/icd.d/nvidia_icd.json", "/usr/share/vulkan/icd.d/intel_icd.json", "/etc/OpenCL/vendors/nvidia.icd",
		"/usr/share/nvidia/nvoptix.bin", "/usr/share/nvidia/nvidia-application-profiles-570.26-rc",
		"/usr/share/nvidia/nvidia-application-profiles-565.57-rc",
	} {
		f.write(path, []byte(path))
	}
	var names []string
	for _, file := range f.root.dataFiles("570.26") {
		names = append(names, file.Name)
	}
	must.Eq(t, []string{
		"OpenCL/vendors/nvidia.icd", "vulkan/icd.d/nvidia_icd.json",
		"nvidia/nvidia-application-profiles-570.26-rc", "nvidia/nvoptix.bin",
	}, names)
}

func TestMIGMinors(t *testing.T) {
	f := newFakeRoot(t)
	f.write("/proc/driver/nvidia-caps/mig-minors", fmt.Appendln(nil, "config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\nbroken line here"))
	minors, err := f.root.migMinors()
	must.NoError(t, err)
	must.Eq(t, map[string]int{"config": 1, "monitor": 2, "gpu0/gi0/access": 3, "gpu0/gi0/ci0/access": 4}, minors)
}

func TestPCIGPUs(t *testing.T) {
	f := newFakeRoot(t)
	for address, facts := range map[string][3]string{
		"0000:06:00.0": {"0x10de", "0x030200", "nvidia"},
		"0000:0a:00.0": {"0x10de", "0x030000", "nvidia"},
		"0000:0b:00.0": {"0x10de", "0x030000", "vfio-pci"},
		"0000:0b:00.1": {"0x10de", "0x040300", "snd_hda_intel"},
		"0000:0c:00.0": {"0x8086", "0x030000", "i915"},
	} {
		dir := "/sys/bus/pci/devices/" + address
		f.write(dir+"/vendor", []byte(facts[0]+"\n"))
		f.write(dir+"/class", []byte(facts[1]+"\n"))
		f.link(dir+"/driver", "../../../bus/pci/drivers/"+facts[2])
	}
	must.Eq(t, []string{"0000:06:00.0", "0000:0A:00.0"}, f.root.pciGPUs(driverNVIDIA))
}
