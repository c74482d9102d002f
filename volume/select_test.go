// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// lib describes a 64-bit library for a test; name and SONAME as given.
func lib(name, soname string, needed ...string) gpuhost.Library {
	return gpuhost.Library{Path: "/usr/lib/" + name, Name: name, SONAME: soname, Bits: 64, Needed: needed}
}

func in32(l gpuhost.Library) gpuhost.Library {
	l.Bits = 32
	l.Path = "/usr/lib32/" + l.Name
	return l
}

const v550 = "550.163.01"

// core550 is the least that a 550 driver has.
func core550(more ...gpuhost.Library) *gpuhost.DriverFiles {
	return &gpuhost.DriverFiles{
		Version: v550,
		Libraries: append([]gpuhost.Library{
			lib("libcuda.so."+v550, "libcuda.so.1", "libc.so.6"),
			lib("libnvidia-ml.so."+v550, "libnvidia-ml.so.1"),
		}, more...),
		Binaries: []gpuhost.Binary{{Path: "/usr/bin/nvidia-smi", Name: "nvidia-smi"}},
	}
}

func noTwins(a, b string) (bool, error) { return false, fmt.Errorf("compared %q and %q", a, b) }

// names gives a plan as a listing, links with their targets.
func (p *plan) names() string {
	var b strings.Builder
	for _, f := range p.files {
		b.WriteString(f.name + "\n")
	}
	for _, l := range p.links {
		b.WriteString(l.name + " -> " + l.target + "\n")
	}
	return b.String()
}

func TestChoose(t *testing.T) {
	all, err := parseCapabilities([]string{"all"})
	must.NoError(t, err)
	for _, tc := range []struct {
		title         string
		files         *gpuhost.DriverFiles
		caps          capSet
		with, without []string
	}{
		{"required and their links", core550(), all,
			[]string{"lib64/libcuda.so.550.163.01", "lib64/libcuda.so.1 -> libcuda.so.550.163.01", "lib64/libcuda.so -> libcuda.so.550.163.01", "lib64/libnvidia-ml.so.1 -> libnvidia-ml.so.550.163.01", "bin/nvidia-smi"},
			[]string{"lib64/libnvidia-ml.so ->"}},
		{"links of the host", core550(gpuhost.Library{Path: "/e", Name: "libnvidia-encode.so." + v550, SONAME: "libnvidia-encode.so.1", Bits: 64,
			Links: []string{"libnvidia-encode.so", "nvidia--libnvidia-encode.so.1-x86_64-linux-gnu", "../libnvidia-encode.so.9", "libevil.so"}}), all,
			[]string{"lib64/libnvidia-encode.so -> libnvidia-encode.so.550.163.01"}, []string{"evil", "..", "nvidia--"}},
		{"debugger does not take libcuda.so", core550(lib("libcudadebugger.so."+v550, "libcudadebugger.so.1")), all,
			[]string{"lib64/libcudadebugger.so.1 -> libcudadebugger.so.550.163.01", "lib64/libcuda.so -> libcuda.so.550.163.01"}, []string{"libcuda.so -> libcudadebugger"}},
		{"unsuffixed nvvm", core550(lib("libnvidia-nvvm.so.4.0.0", "libnvidia-nvvm.so.4"), lib("libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4")), all,
			[]string{"lib64/libnvidia-nvvm.so.4.0.0", "lib64/libnvidia-nvvm.so.4 -> libnvidia-nvvm.so.4.0.0", "lib64/libnvidia-nvvm70.so.4"}, nil},
		{"other version stays out", core550(lib("libnvcuvid.so.535.1.2", "libnvcuvid.so.1")), all, nil, []string{"libnvcuvid"}},
		{"unknown library counts as compute", core550(lib("libnvidia-brandnew.so."+v550, ""), lib("libquux_nvidia.so."+v550, "")), compute,
			[]string{"lib64/libnvidia-brandnew.so.550.163.01", "lib64/libquux_nvidia.so.550.163.01"}, nil},
		{"foreign and X server files stay out", core550(lib("libglxserver_nvidia.so."+v550, ""), lib("libnvidia-gtk3.so."+v550, ""), lib("libc.so.6", "libc.so.6"), lib("libOpenCL.so.1.0.0", "libOpenCL.so.1"), lib("libX11.so."+v550, "")), all,
			nil, []string{"glxserver", "gtk3", "libc.so", "OpenCL", "X11"}},
		{"distribution's loaders stay out", core550(lib("libGL.so.1.7.0", "libGL.so.1", "libGLdispatch.so.0"), lib("libGLX_nvidia.so."+v550, "libGLX_nvidia.so.0")), all,
			[]string{"lib64/libGLX_indirect.so.0 -> libGLX_nvidia.so.550.163.01"}, []string{"libGL.so"}},
		{"special links", core550(lib("libnvidia-opticalflow.so."+v550, "libnvidia-opticalflow.so.1"), lib("libnvidia-allocator.so."+v550, "libnvidia-allocator.so.1"), lib("libnvidia-vulkan-producer.so."+v550, "")), all,
			[]string{"lib64/libnvidia-opticalflow.so -> ", "lib64/gbm/nvidia-drm_gbm.so -> ../libnvidia-allocator.so.550.163.01", "lib64/libnvidia-vulkan-producer.so -> "}, nil},
		{"no GBM without graphics", core550(lib("libnvidia-allocator.so."+v550, "libnvidia-allocator.so.1")), compute | utility, []string{"lib64/libnvidia-allocator.so.1"}, []string{"gbm"}},
		{"needed files come along", core550(lib("libGLX_nvidia.so."+v550, "libGLX_nvidia.so.0", "libnvidia-glcore.so."+v550, "libX11.so.6"), lib("libnvidia-glcore.so."+v550, "", "libnvidia-gpucomp.so."+v550), lib("libnvidia-gpucomp.so."+v550, "")), graphics,
			[]string{"lib64/libnvidia-glcore.so.550.163.01", "lib64/libnvidia-gpucomp.so.550.163.01"}, []string{"libcuda", "nvidia-smi"}},
		{"closure crosses capabilities", core550(lib("libnvidia-opticalflow.so."+v550, "libnvidia-opticalflow.so.1", "libnvcuvid.so.1"), lib("libnvcuvid.so."+v550, "libnvcuvid.so.1", "libnvidia-glsi.so."+v550), lib("libnvidia-glsi.so."+v550, "")), video,
			[]string{"lib64/libnvidia-glsi.so.550.163.01"}, nil},
		{"video brings compute", core550(), video | compute, []string{"libcuda"}, []string{"libnvidia-ml"}},
		{"32 bit goes to lib", core550(in32(lib("libcuda.so."+v550, "libcuda.so.1"))), all, []string{"lib/libcuda.so.1 -> libcuda.so.550.163.01"}, nil},
		{"32 bit only on request", core550(in32(lib("libcuda.so."+v550, "libcuda.so.1"))), compute | utility, nil, []string{"lib/"}},
		{"tools that containers do not need stay out", &gpuhost.DriverFiles{Version: v550, Libraries: core550().Libraries,
			Binaries: []gpuhost.Binary{{Path: "/usr/bin/nvidia-modprobe", Name: "nvidia-modprobe"}, {Path: "/usr/sbin/nvidia-cuda-mps-server", Name: "nvidia-cuda-mps-server"}}}, all,
			[]string{"bin/nvidia-cuda-mps-server"}, []string{"modprobe"}},
		{"old driver without GLVND keeps its loaders", &gpuhost.DriverFiles{Version: "340.108", Libraries: []gpuhost.Library{
			lib("libcuda.so.340.108", "libcuda.so.1"), lib("libEGL.so.340.108", "libEGL.so.1", "libX11.so.6"), lib("libEGL.so.1.0.0", "libEGL.so.1", "libglapi.so.0")}}, all,
			[]string{"lib64/libEGL.so.1 -> libEGL.so.340.108"}, []string{"libEGL.so.1.0.0"}},
	} {
		t.Run(tc.title, func(t *testing.T) {
			p, err := choose(tc.files, tc.caps, noTwins)
			must.NoError(t, err)
			for _, want := range tc.with {
				must.StrContains(t, p.names(), want)
			}
			for _, not := range tc.without {
				must.StrNotContains(t, p.names(), not)
			}
		})
	}
}

func TestChooseRefuses(t *testing.T) {
	all, err := parseCapabilities([]string{"all"})
	must.NoError(t, err)
	older := core550()
	older.Libraries[0] = lib("libcuda.so.535.261.03", "libcuda.so.1")
	none := core550()
	none.Libraries = none.Libraries[1:]
	twin := core550(gpuhost.Library{Path: "/opt/libcuda.so." + v550, Name: "libcuda.so." + v550, Bits: 64})
	needy := core550()
	needy.Libraries[0].Needed = []string{"libnvidia-fatbinaryloader.so." + v550}
	for _, tc := range []struct {
		title   string
		files   *gpuhost.DriverFiles
		wantErr []string
	}{
		{"half-finished upgrade", older, []string{`libraries are "535.261.03"`, `kernel module is "550.163.01"`, "reboot"}},
		{"no libcuda", none, []string{`"libcuda.so.550.163.01"`, "not found"}},
		{"two files of one name", twin, []string{`"/usr/lib/libcuda.so.550.163.01"`, `"/opt/libcuda.so.550.163.01"`}},
		{"needed file missing", needy, []string{`"/usr/lib/libcuda.so.550.163.01"`, `"libnvidia-fatbinaryloader.so.550.163.01"`}},
	} {
		t.Run(tc.title, func(t *testing.T) {
			_, err := choose(tc.files, all, func(string, string) (bool, error) { return false, nil })
			must.Error(t, err)
			for _, want := range tc.wantErr {
				must.StrContains(t, err.Error(), want)
			}
			must.Eq(t, tc.title == "half-finished upgrade", errors.Is(err, ErrMismatch))
		})
	}
}

func TestChooseNotesWhatIsMissing(t *testing.T) {
	files := core550(
		lib("libnvidia-glcore.so."+v550, "", "libnvidia-gpucomp.so."+v550),
		in32(lib("libcuda.so."+v550, "libcuda.so.1", "libnvidia-fatbinaryloader.so."+v550)),
	)
	files.Binaries = nil
	p, err := choose(files, compute|graphics|utility|compat32, noTwins)
	must.NoError(t, err)
	must.Eq(t, []string{
		"bin/nvidia-smi", "lib/libnvidia-fatbinaryloader.so.550.163.01",
		"lib64/libnvidia-gpucomp.so.550.163.01", "lib64/libnvidia-opencl.so.550.163.01", "lib64/libnvidia-ptxjitcompiler.so.550.163.01",
	}, p.missing)
}

// TestChooseNotesWhatWillBeMissed: what programs open by name, and the configuration
// by which loaders find the driver, are noted when a whole driver would have them
// (cases VOL-06, VOL-10).
func TestChooseNotesWhatWillBeMissed(t *testing.T) {
	all, err := parseCapabilities([]string{"all"})
	must.NoError(t, err)
	config := func(name string) gpuhost.DataFile {
		path := filepath.Join(t.TempDir(), "file")
		must.NoError(t, os.WriteFile(path, []byte("{}"), 0o644))
		return gpuhost.DataFile{Path: path, Name: name}
	}
	driver := func(version string, stems ...string) *gpuhost.DriverFiles {
		files := &gpuhost.DriverFiles{Version: version, Binaries: core550().Binaries}
		for _, stem := range append(stems, "libcuda", "libnvidia-ml", "libnvidia-opencl", "libnvcuvid", "libnvidia-encode") {
			files.Libraries = append(files.Libraries, lib(stem+".so."+version, stem+".so.1"))
		}
		files.Data = []gpuhost.DataFile{config("OpenCL/vendors/nvidia.icd")}
		return files
	}
	without := func(files *gpuhost.DriverFiles, stem string) *gpuhost.DriverFiles {
		files.Libraries = slices.DeleteFunc(files.Libraries, func(l gpuhost.Library) bool { return strings.HasPrefix(l.Name, stem+".so") })
		return files
	}
	with := func(files *gpuhost.DriverFiles, data ...gpuhost.DataFile) *gpuhost.DriverFiles {
		files.Data = data
		return files
	}
	for _, tc := range []struct {
		title string
		files *gpuhost.DriverFiles
		caps  capSet
		want  []string
	}{
		{"whole", driver("550.1", "libnvidia-ptxjitcompiler"), all, nil},
		{"no PTX compiler", driver("550.1"), all, []string{"lib64/libnvidia-ptxjitcompiler.so.550.1"}},
		{"no PTX compiler, and none wanted", driver("550.1"), utility, nil},
		{"no PTX compiler in a driver without one", driver("352.39"), all, nil},
		{"32-bit PTX compiler only", &gpuhost.DriverFiles{Version: "550.1", Binaries: core550().Binaries,
			Libraries: append(driver("550.1").Libraries, in32(lib("libnvidia-ptxjitcompiler.so.550.1", ""))), Data: driver("550.1").Data}, all,
			[]string{"lib64/libnvidia-ptxjitcompiler.so.550.1"}},
		{"no NVML", without(driver("352.39"), "libnvidia-ml"), all, []string{"lib64/libnvidia-ml.so.352.39"}},
		{"no codecs", without(without(driver("352.39"), "libnvcuvid"), "libnvidia-encode"), all,
			[]string{"lib64/libnvcuvid.so.352.39", "lib64/libnvidia-encode.so.352.39"}},
		{"no codecs, and none wanted", without(without(driver("352.39"), "libnvcuvid"), "libnvidia-encode"), compute, nil},
		{"no configuration", with(driver("550.1", "libnvidia-ptxjitcompiler", "libEGL_nvidia", "libGLX_nvidia")), all,
			[]string{"share/OpenCL/vendors/nvidia.icd", "share/glvnd/egl_vendor.d/10_nvidia.json", "share/vulkan/icd.d/nvidia_icd.json"}},
		{"no configuration, without graphics", with(driver("550.1", "libnvidia-ptxjitcompiler", "libEGL_nvidia", "libGLX_nvidia")), compute,
			[]string{"share/OpenCL/vendors/nvidia.icd"}},
		{"configuration under other names", with(driver("550.1", "libnvidia-ptxjitcompiler", "libEGL_nvidia", "libGLX_nvidia"),
			config("OpenCL/vendors/nvidia-550.icd"), config("glvnd/egl_vendor.d/50_nvidia.json"), config("vulkan/icd.d/nvidia_icd.x86_64.json")), all, nil},
		{"no configuration before there was any", with(driver("352.39", "libEGL_nvidia")), all, nil},
	} {
		t.Run(tc.title, func(t *testing.T) {
			p, err := choose(tc.files, tc.caps, noTwins)
			must.NoError(t, err)
			must.Eq(t, tc.want, p.missing)
		})
	}
}

func TestChooseData(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) gpuhost.DataFile {
		path := filepath.Join(root, filepath.Base(name))
		must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		return gpuhost.DataFile{Path: path, Name: name}
	}
	files := core550()
	files.Data = []gpuhost.DataFile{
		write("vulkan/icd.d/nvidia_icd.json", `{"ICD": {"library_path": "libGLX_nvidia.so.0"}}`),
		write("vulkan/implicit_layer.d/nvidia_layers.json", `{"layer": {"library_path" : "/usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.0"}}`),
		write("egl/egl_external_platform.d/15_nvidia_gbm.json", `{"ICD": {"library_path": "libnvidia-egl-gbm.so.1"}}`),
		write("glvnd/egl_vendor.d/10_nvidia.json", `{"ICD" : { "library_path" : "/nix/store/x/lib/libEGL_nvidia.so.0" }}`),
		write("OpenCL/vendors/nvidia.icd", "/opt/lib/libnvidia-opencl.so.1\n"),
		write("vulkan/icd.d/radeon_icd.json", `{}`),
		write("nvidia/nvoptix.bin", "data"),
		write("../etc/nvidia.json", `{}`),
		write("elsewhere/nvidia.json", `{}`),
		write("nvidia/nvidia-application-profiles-550.163.01-rc", `{}`),
	}
	all, err := parseCapabilities([]string{"all"})
	must.NoError(t, err)
	p, err := choose(files, all, noTwins)
	must.NoError(t, err)
	got := map[string]string{}
	for _, f := range p.files {
		if strings.HasPrefix(f.name, "share/") {
			got[f.name] = string(f.content)
		}
	}
	must.Eq(t, map[string]string{
		"share/vulkan/icd.d/nvidia_icd.json":                   "",
		"share/vulkan/implicit_layer.d/nvidia_layers.json":     `{"layer": {"library_path" : "libGLX_nvidia.so.0"}}`,
		"share/egl/egl_external_platform.d/15_nvidia_gbm.json": "",
		"share/glvnd/egl_vendor.d/10_nvidia.json":              `{"ICD" : { "library_path" : "libEGL_nvidia.so.0" }}`,
		"share/OpenCL/vendors/nvidia.icd":                      "libnvidia-opencl.so.1\n",
		"share/nvidia/nvoptix.bin":                             "",
	}, got)

	must.StrContains(t, p.names(), "lib64/nvoptix.bin -> ../share/nvidia/nvoptix.bin")

	p, err = choose(files, compute|utility, noTwins)
	must.NoError(t, err)
	must.StrContains(t, p.names(), "share/OpenCL/vendors/nvidia.icd")
	must.StrNotContains(t, p.names(), "vulkan")
}

func TestParseCapabilities(t *testing.T) {
	set, err := parseCapabilities([]string{"video", "compat32"})
	must.NoError(t, err)
	must.Eq(t, []string{"compat32", "compute", "video"}, set.names())
	_, err = parseCapabilities([]string{"compute", "display"})
	must.EqError(t, err, `capability "display" is not known; use compat32, compute, graphics, ngx, utility, video, all`)
}
