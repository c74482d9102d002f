// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// variable looks up a variable of the request; "-" when it is not set.
func variable(r *Request, name string) string {
	for _, entry := range r.Config.Env {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return "-"
}

// TestGPU_None: no reservation, no GPU, whatever job and image say (cases DRV-02).
func TestGPU_None(t *testing.T) {
	t.Parallel()
	for _, image := range [][]string{nil, {"NVIDIA_VISIBLE_DEVICES=all"}, {"NVIDIA_VISIBLE_DEVICES="}, {"NVIDIA_VISIBLE_DEVICES=0", "LD_PRELOAD=/x"}} {
		for _, runtime := range []string{"runc", "nvidia"} {
			in := newInput(t, "")
			in.ImageEnv, in.Engine.DefaultRuntime = image, runtime
			r := assemble(t, in)
			must.Eq(t, "void", variable(r, "NVIDIA_VISIBLE_DEVICES"))
			must.Eq(t, "-", variable(r, "PATH"))
			must.Eq(t, "-", variable(r, "CUDA_DEVICE_ORDER"))
			must.Nil(t, r.HostConfig.Devices)
			must.Nil(t, r.HostConfig.Mounts)
			must.Nil(t, r.HostConfig.DeviceRequests)
			must.MapNotContainsKey(t, r.Config.Labels, LabelGPUs)
		}
	}
	for _, asked := range []string{"all", "0", "none", ""} {
		in := newInput(t, "")
		in.Task.Env["NVIDIA_VISIBLE_DEVICES"] = asked
		must.Eq(t, "void", variable(assembleWarns(t, in, "was ignored: the task holds no GPU"), "NVIDIA_VISIBLE_DEVICES"))
	}
	in := newInput(t, "")
	in.Task.Env["NVIDIA_VISIBLE_DEVICES"] = "void"
	must.Eq(t, "void", variable(assemble(t, in), "NVIDIA_VISIBLE_DEVICES"))
}

// TestGPU_Grant: exactly the reserved nodes, each once, the volume without
// writing, no runtime (cases DRV-01).
func TestGPU_Grant(t *testing.T) {
	t.Parallel()
	in := grant(newInput(t, ""))
	in.Plugin.GPU.VolumeMode = "plugin"
	r := assemble(t, in)
	must.Eq(t, []container.DeviceMapping{
		{PathOnHost: "/dev/nvidia0", PathInContainer: "/dev/nvidia0", CgroupPermissions: "rw"},
		{PathOnHost: "/dev/nvidiactl", PathInContainer: "/dev/nvidiactl", CgroupPermissions: "rw"},
	}, r.HostConfig.Devices)
	must.Eq(t, []mount.Mount{{
		Type: "volume", Source: "nvidia_driver_352.39", Target: "/usr/local/nvidia", ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, DriverConfig: &mount.Driver{Name: "nvidia-docker"}},
	}}, r.HostConfig.Mounts)
	must.Eq(t, "", r.HostConfig.Runtime)
	must.Eq(t, testUUID, variable(r, "NVIDIA_VISIBLE_DEVICES"))
	must.Eq(t, "PCI_BUS_ID", variable(r, "CUDA_DEVICE_ORDER"))
}

func TestGPU_BindMode(t *testing.T) {
	t.Parallel()
	in := grant(newInput(t, `gpu { mount_path = "/opt/nv" }`))
	in.Plugin.GPU.VolumeMode = "bind"
	r := assemble(t, in)
	must.Eq(t, []mount.Mount{{Type: "bind", Source: in.GPU.Volume.Mountpoint, Target: "/opt/nv", ReadOnly: true}}, r.HostConfig.Mounts)
	must.Eq(t, "/opt/nv/lib:/opt/nv/lib64", variable(r, "LD_LIBRARY_PATH"))
	must.StrHasPrefix(t, "/opt/nv/bin:", variable(r, "PATH"))
}

// TestGPU_LibraryTargets: each library by itself, where the task wants it (cases
// CMP-09).
func TestGPU_LibraryTargets(t *testing.T) {
	t.Parallel()
	const option = `gpu { extra_library_targets = ["/usr/lib", "/lib/"] }`
	libraries := map[string]string{"libcuda.so.1": "/v/lib64/libcuda.so.352.39", "libcuda.so.352.39": "/v/lib64/libcuda.so.352.39"}
	in := grant(newInput(t, option))
	in.GPU.Libraries = libraries
	in.Plugin.GPU.VolumeMode = "bind"
	r := assemble(t, in)
	var targets []string
	for _, m := range r.HostConfig.Mounts[1:] {
		must.Eq(t, mount.Mount{Type: "bind", Source: "/v/lib64/libcuda.so.352.39", Target: m.Target, ReadOnly: true}, m)
		targets = append(targets, m.Target)
	}
	must.Eq(t, []string{"/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.352.39", "/lib/libcuda.so.1", "/lib/libcuda.so.352.39"}, targets)

	in = grant(newInput(t, option+"\nvolumes = [\"local/stub:/usr/lib/libcuda.so.1\"]"))
	in.GPU.Libraries = libraries
	must.Len(t, 4, assemble(t, in).HostConfig.Mounts, must.Sprint("the volume, and all libraries but the job's own"))

	must.Nil(t, assemble(t, newInput(t, option)).HostConfig.Mounts, must.Sprint("no GPU, no libraries"))
	in = grant(newInput(t, option))
	in.Plugin.GPU.Injection, in.Engine.APIVersion, in.GPU.Volume, in.GPU.Nodes = "cdi", "1.44", nil, nil
	must.Nil(t, assembleWarns(t, in, `gpu.extra_library_targets was ignored: with gpu.injection = "cdi"`).HostConfig.Mounts)
}

// TestGPU_VolumeOnce: a job written for nvidia-docker names the volume itself.
func TestGPU_VolumeOnce(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		"volume_driver = \"nvidia-docker\"\nvolumes = [\"nvidia_driver_352.39:/usr/local/nvidia:ro\"]",
		"mount {\n source = \"nvidia_driver_352.39\"\n target = \"/usr/local/nvidia/\"\n readonly = true\n}",
	} {
		in := grant(newInput(t, options))
		in.Plugin.Volumes.Enabled = true
		h := assemble(t, in).HostConfig
		must.Eq(t, 4, len(h.Binds)+len(h.Mounts))
	}
	in := grant(newInput(t, "volume_driver = \"nvidia-docker\"\nvolumes = [\"nvidia_driver_352.39:/usr/local/nvidia\"]"))
	in.Plugin.Volumes.Enabled = true
	assembleError(t, in, "Duplicate mount point: /usr/local/nvidia")
}

func TestGPU_SearchPaths(t *testing.T) {
	t.Parallel()
	const volumeLibs = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
	for _, tc := range []struct {
		name, image, task, variable string
		compat                      bool
		want                        string
	}{
		{name: "no PATH", variable: "PATH", want: "/usr/local/nvidia/bin:" + engineDefaultPath},
		{name: "the image's PATH", variable: "PATH", image: "/opt/bin:/bin", want: "/usr/local/nvidia/bin:/opt/bin:/bin"},
		{name: "the task's PATH", variable: "PATH", image: "/opt/bin", task: "/my/bin", want: "/usr/local/nvidia/bin:/my/bin"},
		{name: "the image lists it", variable: "PATH", image: "/bin:/usr/local/nvidia/bin", want: "-"},
		{name: "the task lists it", variable: "PATH", image: "/bin", task: "/x:/usr/local/nvidia/bin", want: "/x:/usr/local/nvidia/bin"},
		{name: "no libraries", variable: "LD_LIBRARY_PATH", want: volumeLibs},
		{name: "the image's libraries", variable: "LD_LIBRARY_PATH", image: "/opt/lib", want: volumeLibs + ":/opt/lib"},
		{name: "the image lists them", variable: "LD_LIBRARY_PATH", image: volumeLibs, want: "-"},
		{name: "the image lists one", variable: "LD_LIBRARY_PATH", image: "/usr/local/nvidia/lib64:/x", want: "/usr/local/nvidia/lib:/usr/local/nvidia/lib64:/x"},
		{name: "empty", variable: "LD_LIBRARY_PATH", task: "=", want: volumeLibs},
		{name: "compat", variable: "LD_LIBRARY_PATH", image: "/opt/lib", compat: true, want: "/usr/local/cuda/compat:" + volumeLibs + ":/opt/lib"},
		{name: "compat, listed last", variable: "LD_LIBRARY_PATH", image: volumeLibs + ":/usr/local/cuda/compat", compat: true,
			want: "/usr/local/cuda/compat:" + volumeLibs + ":/usr/local/cuda/compat"},
		{name: "compat, listed first", variable: "LD_LIBRARY_PATH", image: "/usr/local/cuda/compat:" + volumeLibs, compat: true, want: "-"},
		{name: "compat, no libraries", variable: "LD_LIBRARY_PATH", compat: true, want: "/usr/local/cuda/compat:" + volumeLibs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := grant(newInput(t, ""))
			in.GPU.UseCompatLibraries = tc.compat
			if tc.image != "" {
				in.ImageEnv = []string{"OTHER=x", tc.variable + "=" + tc.image}
			}
			if tc.task != "" {
				in.Task.Env[tc.variable] = strings.TrimPrefix(tc.task, "=")
			}
			must.Eq(t, tc.want, variable(assemble(t, in), tc.variable))
		})
	}
}

// TestGPU_ImageBeyondReason: an image's environment is data with a limit (cases SEC-01).
func TestGPU_ImageBeyondReason(t *testing.T) {
	t.Parallel()
	in := grant(newInput(t, ""))
	in.ImageEnv = []string{"PATH=" + strings.Repeat("/x:", 1<<20), "LD_PRELOAD=/evil.so", "no equals sign", "NVIDIA_REQUIRE_CUDA=" + strings.Repeat("cuda>=1 ", 1<<17)}
	r := assembleWarns(t, in, "the image's PATH has 3145728 bytes and was left alone")
	must.Eq(t, "-", variable(r, "PATH"))
	must.Eq(t, "-", variable(r, "LD_PRELOAD"))
}

func TestGPU_Environment(t *testing.T) {
	t.Parallel()
	in := grant(newInput(t, ""))
	in.GPU.Numbers = map[string]string{"GPU_COUNT": "1", "GPU_MEMORY_TOTAL_MIB": "11519"}
	in.GPU.Env = map[string]string{"VK_DRIVER_FILES": "/usr/local/nvidia/vk.json", "OTHER": "volume"}
	in.ImageEnv = []string{"CUDA_DEVICE_ORDER=FASTEST_FIRST", "GPU_COUNT=8", "GPU_MEMORY_TOTAL_MIB=1", "VK_DRIVER_FILES=/image/vk.json"}
	in.Task.Env["OTHER"] = "task"
	in.Task.Env["GPU_MEMORY_TOTAL_MIB"] = "2048"
	r := assemble(t, in)
	must.Eq(t, "1", variable(r, "GPU_COUNT"))
	must.Eq(t, "2048", variable(r, "GPU_MEMORY_TOTAL_MIB"))
	must.Eq(t, "-", variable(r, "VK_DRIVER_FILES"))
	in.ImageEnv = in.ImageEnv[:3]
	r = assemble(t, in)
	must.Eq(t, "-", variable(r, "CUDA_DEVICE_ORDER"))
	must.Eq(t, "/usr/local/nvidia/vk.json", variable(r, "VK_DRIVER_FILES"))
	must.Eq(t, "task", variable(r, "OTHER"))
	in.Task.Env["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"
	must.Eq(t, "FASTEST_FIRST", variable(assemble(t, in), "CUDA_DEVICE_ORDER"))
}

// TestGPU_JobNarrows: the reservation wins; a job may only leave some out (cases DRV-04).
func TestGPU_JobNarrows(t *testing.T) {
	t.Parallel()
	both := testUUID + "," + otherUUID
	for _, tc := range []struct{ name, asked, want string }{
		{"the same", both, both},
		{"one of them", otherUUID, otherUUID},
		{"all", "all", both},
		{"an index", "0", both},
		{"a foreign one too", otherUUID + ",GPU-foreign", both},
		{"nothing", "", both},
		{"none", "none", both},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := grant(newInput(t, ""))
			in.GPU.UUIDs = []string{testUUID, otherUUID}
			in.Task.Env["NVIDIA_VISIBLE_DEVICES"] = tc.asked
			r, warnings, err := Assemble(in)
			must.NoError(t, err)
			must.Eq(t, tc.want, variable(r, "NVIDIA_VISIBLE_DEVICES"))
			must.Eq(t, tc.want == tc.asked, len(warnings) == 0)
		})
	}
}

func TestGPU_CDI(t *testing.T) {
	t.Parallel()
	in := grant(newInput(t, ""))
	in.Plugin.GPU.Injection = "cdi"
	assembleError(t, in, `plugin config: gpu.injection: "cdi" needs engine API 1.44; this engine speaks 1.41; use "volume"`)
	in.Engine.APIVersion = "1.45"
	h := assemble(t, in).HostConfig
	must.Eq(t, []container.DeviceRequest{{Driver: "cdi", DeviceIDs: []string{"nvidia.com/gpu=" + testUUID}}}, h.DeviceRequests)
	must.Nil(t, h.Mounts)
	must.Eq(t, []string{"/dev/nvidia0"}, devicePaths(h)) // Nomad's own list
	in.GPU = nil
	must.Nil(t, assemble(t, in).HostConfig.DeviceRequests)
}

// TestGPU_OtherVendors: what any device plugin reserves is honoured (cases DRV-24).
func TestGPU_OtherVendors(t *testing.T) {
	t.Parallel()
	in := newInput(t, "")
	in.Task.Devices = []*drivers.DeviceConfig{{HostPath: "/dev/accel0", TaskPath: "/dev/accel/0"}}
	in.Task.Mounts = []*drivers.MountConfig{{HostPath: "/opt/accel", TaskPath: "/opt/accel", Readonly: true}}
	in.Task.Env["ACCEL"] = "0"
	r := assemble(t, in)
	must.Eq(t, []container.DeviceMapping{{PathOnHost: "/dev/accel0", PathInContainer: "/dev/accel/0", CgroupPermissions: "rwm"}}, r.HostConfig.Devices)
	must.Eq(t, "/opt/accel", r.HostConfig.Mounts[0].Target)
	must.Eq(t, "0", variable(r, "ACCEL"))
	must.Eq(t, "void", variable(r, "NVIDIA_VISIBLE_DEVICES"))
}
