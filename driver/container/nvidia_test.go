// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestDevices_Options(t *testing.T) {
	t.Parallel()
	in := newInput(t, "devices {\n host_path = \"/dev/fuse\"\n}\ndevices {\n host_path = \"/dev/net/tun\"\n container_path = \"/dev/tun\"\n cgroup_permissions = \"r\"\n}")
	must.Eq(t, []container.DeviceMapping{
		{PathOnHost: "/dev/fuse", PathInContainer: "/dev/fuse", CgroupPermissions: "rwm"},
		{PathOnHost: "/dev/net/tun", PathInContainer: "/dev/tun", CgroupPermissions: "r"},
	}, assemble(t, in).HostConfig.Devices)
	must.Nil(t, assemble(t, newInput(t, "")).HostConfig.Devices)
}

// TestNVIDIA_WaysAround: with or without a GPU, a job cannot name one beside the
// reservation, by whatever path (cases DRV-03).
func TestNVIDIA_WaysAround(t *testing.T) {
	t.Parallel()
	root := t.TempDir() // a driver root with its own device nodes
	must.NoError(t, os.MkdirAll(filepath.Join(root, "dev"), 0o755))
	links := t.TempDir()
	for name, target := range map[string]string{"one": "/dev/nvidia0", "all": "/dev", "root": "/", "chain": "one"} {
		must.NoError(t, os.Symlink(target, filepath.Join(links, name)))
	}
	device := func(path string) string { return "devices {\n host_path = \"" + path + "\"\n}" }
	volume := func(path string) string { return `volumes = ["` + path + `:/x"]` }
	bind := func(path string) string {
		return "mount {\n type = \"bind\"\n source = \"" + path + "\"\n target = \"/x\"\n}"
	}
	local := func(path string) string {
		return "mount {\n target = \"/x\"\n volume_options {\n driver_config {\n name = \"local\"\n options {\n device = \"" + path + "\"\n o = \"bind\"\n }\n }\n }\n}"
	}
	for _, tc := range []struct{ name, options, option string }{
		{"device", device("/dev/nvidia0"), "devices[0].host_path"},
		{"control device", device("/dev/nvidiactl"), "devices[0].host_path"},
		{"device not there", device("/dev/nvidia99"), "devices[0].host_path"},
		{"device by a long way", device("/dev/../dev/./nvidia0"), "devices[0].host_path"},
		{"device by a link", device(links + "/one"), "devices[0].host_path"},
		{"device by two links", device(links + "/chain"), "devices[0].host_path"},
		{"capability devices", device("/dev/nvidia-caps"), "devices[0].host_path"},
		{"all devices", device("/dev"), "devices[0].host_path"},
		{"all devices by a link", device(links + "/all"), "devices[0].host_path"},
		{"everything", device("/"), "devices[0].host_path"},
		{"everything by a link", device(links + "/root"), "devices[0].host_path"},
		{"driver root", device(root + "/dev/nvidia1"), "devices[0].host_path"},
		{"driver root as a whole", device(root), "devices[0].host_path"},
		{"volume", volume("/dev/nvidia0"), "volumes[0]"},
		{"volume of all", volume("/dev/"), "volumes[0]"},
		{"volume by a link", volume(links + "/all"), "volumes[0]"},
		{"volume below a link", volume(links + "/root/dev"), "volumes[0]"},
		{"volume of the driver root", volume(root + "/dev"), "volumes[0]"},
		{"volume with a driver", "volume_driver = \"local\"\n" + volume("/dev"), "volumes[0]"},
		{"volume by a process", volume("/proc/self/root/dev"), "volumes[0]"},
		{"device by a process", device("/proc/self/root/dev/nvidia0"), "devices[0].host_path"},
		{"mount", bind("/dev/nvidia-uvm"), "mount[0]"},
		{"mount of all", bind("/dev"), "mount[0]"},
		{"mount by a link", bind(links + "/chain"), "mount[0]"},
		{"mount by a local volume", local("/dev"), "mount[0].volume_options.driver_config.options"},
		{"local volume by a link", local(links + "/one"), "mount[0].volume_options.driver_config.options"},
		{"runtime's mounts", "volumes = [\"/srv:/var/run/nvidia-container-devices/all\"]", "volumes[0]"},
		{"runtime's mounts by a tmpfs", "mount {\n type = \"tmpfs\"\n target = \"/run/nvidia-container-devices/0\"\n}", "mount[0]"},
	} {
		for _, gpu := range []bool{false, true} {
			name := tc.name
			in := newInput(t, tc.options)
			if gpu {
				name += ", with a GPU"
				grant(in)
			}
			t.Run(name, func(t *testing.T) {
				in.Plugin.Volumes.Enabled = true
				in.Plugin.GPU.DriverRoot = root
				assembleError(t, in, "task config: "+tc.option+": ")
				_, _, err := Assemble(in)
				must.ErrorContains(t, err, "beside the reservation; reserve GPUs with a device block, or let the operator set allow_privileged")

				in.Plugin.AllowPrivileged = true
				assembleWarns(t, in, "beside the reservation; GPUs are not isolated from this task")
			})
		}
	}
}

// TestNVIDIA_OtherPaths are no ways to a GPU.
func TestNVIDIA_OtherPaths(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		"devices {\n host_path = \"/dev/null\"\n}",
		"devices {\n host_path = \"/dev/infiniband\"\n}",
		`volumes = ["/dev/shm:/x"]`,
		`volumes = ["/:/host:ro"]`,
		`volumes = ["/srv/nvidia:/usr/share/nvidia"]`,
	} {
		in := newInput(t, options)
		in.Plugin.Volumes.Enabled = true
		assemble(t, in)
	}
}

// TestNVIDIA_ByNumber: the kernel's list tells which numbers are NVIDIA's, so
// that a node of another name, or in a directory, is found.
func TestNVIDIA_ByNumber(t *testing.T) {
	t.Parallel()
	must.Eq(t, map[uint32]bool{195: true, 235: true}, nvidiaMajors("testdata/proc-devices"))
	must.Eq(t, map[uint32]bool{195: true}, nvidiaMajors("testdata/none"))
	must.MapEmpty(t, KernelMajors("testdata/none"))
	must.Eq(t, uint32(1), deviceMajor("/dev/null"))
	must.Eq(t, uint32(0), deviceMajor("/etc/passwd"))
	must.Eq(t, uint32(0), deviceMajor("/nonexistent"))

	// Stand-in: the numbers of /dev/null are taken for NVIDIA's.
	list := filepath.Join(t.TempDir(), "devices")
	must.NoError(t, os.WriteFile(list, []byte("Character devices:\n  1 nvidia-test\n"), 0o600))
	for _, path := range []string{"/dev/null", "/dev/zero"} {
		in := newInput(t, "devices {\n host_path = \""+path+"\"\n}")
		in.Host.ProcDevices = list
		assembleError(t, in, `"`+path+`" is an NVIDIA device and gives GPUs beside the reservation`)
	}
	found, err := findNVIDIANode("/dev", map[uint32]bool{1: true})
	must.NoError(t, err)
	must.Eq(t, uint32(1), deviceMajor(found))
}

func TestNVIDIA_LargeDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range maxDeviceEntries {
		must.NoError(t, os.WriteFile(filepath.Join(dir, strings.Repeat("x", 1+i%200)+string(rune('a'+i/200))), nil, 0o600))
	}
	_, err := findNVIDIANode(dir, nil)
	must.ErrorContains(t, err, "holds more than 4096 entries; name the devices one by one")
}

func TestHostPath_Unreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.NoError(t, os.Symlink("b", filepath.Join(dir, "a")))
	must.NoError(t, os.Symlink("a", filepath.Join(dir, "b")))
	_, err := realPath(filepath.Join(dir, "a", "x"))
	must.ErrorIs(t, err, unix.ELOOP)
	got, err := realPath("/etc/passwd/x")
	must.NoError(t, err)
	must.Eq(t, "/etc/passwd/x", got)
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		dir, name string
		want      bool
	}{
		{"/a/b", "/a/b", true},
		{"/a/b", "/a/b/c", true},
		{"/a/b", "/a/bc", false},
		{"/a/b", "/a", false},
		{"/a/b", "/a/b/..c", true},
		{"/", "/x", true},
	} {
		must.Eq(t, tc.want, within(tc.dir, tc.name), must.Sprint(tc))
	}
}
