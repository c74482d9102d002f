// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// onDisk gives the input real directories of an allocation.
func onDisk(t *testing.T, in *Input) *Input {
	t.Helper()
	in.Task.AllocDir = t.TempDir()
	for _, dir := range []string{"alloc", "web/local", "web/secrets"} {
		must.NoError(t, os.MkdirAll(filepath.Join(in.Task.AllocDir, dir), 0o755))
	}
	return in
}

// allocPath puts the allocation's directory into a text.
func allocPath(in *Input, text string) string {
	return strings.ReplaceAll(text, "ALLOC", in.Task.AllocDir)
}

func TestMounts_Standard(t *testing.T) {
	t.Parallel()
	in := newInput(t, "")
	dir := in.Task.AllocDir
	must.Eq(t, []string{dir + "/alloc:/alloc", dir + "/web/local:/local", dir + "/web/secrets:/secrets"}, assemble(t, in).HostConfig.Binds)
	in.Task.Env = map[string]string{"NOMAD_ALLOC_DIR": "/a", "NOMAD_TASK_DIR": "/l"}
	in.Plugin.Volumes.SELinuxLabel = "z"
	must.Eq(t, []string{dir + "/alloc:/a:z", dir + "/web/local:/l:z", dir + "/web/secrets:/secrets:z"}, assemble(t, in).HostConfig.Binds)
}

func TestMounts_Volumes(t *testing.T) {
	t.Parallel()
	const off = "volumes are not enabled; cannot mount host paths"
	const volumeDriver = "volume_driver = \"nvidia-docker\"\n"
	volumes, link := filepath.Join(t.TempDir(), "volumes"), filepath.Join(t.TempDir(), "link")
	must.NoError(t, os.Symlink(filepath.Join(volumes, "nvidia_driver"), link))
	place := func(in *Input, text string) string {
		return strings.NewReplacer("VOLUMES", volumes, "LINK", link).Replace(allocPath(in, text))
	}
	for _, tc := range []struct {
		name, options, selinux, want string
		enabled                      bool
		wantError                    string
	}{
		{name: "relative", options: `volumes = ["data:/data"]`, want: "ALLOC/web/data:/data"},
		{name: "parent", options: `volumes = ["../alloc/x:/data:ro"]`, want: "ALLOC/alloc/x:/data:ro"},
		{name: "absolute in the allocation", options: `volumes = ["ALLOC/alloc:/data"]`, want: "ALLOC/alloc:/data"},
		{name: "outside", options: `volumes = ["/etc:/data"]`, wantError: `volumes[0]: ` + off + `: "/etc"`},
		{name: "relative outside", options: `volumes = ["../../x:/data"]`, wantError: off + `: "../../x"`},
		{name: "sibling of the same prefix", options: `volumes = ["ALLOC-2/x:/data"]`, wantError: off},
		{name: "outside, enabled", options: `volumes = ["/etc/../srv:/data"]`, enabled: true, want: "/srv:/data"},
		{name: "driver", options: "volume_driver = \"pxd\"\nvolumes = [\"name:/data\"]", wantError: `volumes are not enabled; cannot use volume driver "pxd"`},
		{name: "driver, enabled", options: "volume_driver = \"pxd\"\nvolumes = [\"name:/data\"]", enabled: true, want: "name:/data"},
		{name: "selinux", options: `volumes = ["data:/data"]`, selinux: "z", want: "ALLOC/web/data:/data:z"},
		{name: "selinux and mode", options: `volumes = ["data:/data:ro"]`, selinux: "Z", want: "ALLOC/web/data:/data:ro,Z"},
		{name: "selinux, the job's own", options: `volumes = ["data:/data:z"]`, selinux: "Z", want: "ALLOC/web/data:/data:z"},
		{name: "selinux, the job's own private one", options: `volumes = ["data:/data:Z,ro"]`, selinux: "z", want: "ALLOC/web/data:/data:Z,ro"},
		{name: "selinux twice", options: `volumes = ["data:/data:ro,z"]`, selinux: "z", want: "ALLOC/web/data:/data:ro,z"},
		{name: "another driver's volume", options: "volume_driver = \"pxd\"\nvolumes = [\"nvidia:/data:z\"]", enabled: true, want: "nvidia:/data:z"},
		// A driver volume is never relabelled (cases VOL-11).
		{name: "driver volume", options: volumeDriver + "volumes = [\"nvidia_driver_352.39:/usr/local/nvidia:ro\"]", enabled: true, selinux: "z",
			want: "nvidia_driver_352.39:/usr/local/nvidia:ro"},
		{name: "driver volume, without a mode", options: volumeDriver + "volumes = [\"nvidia_driver_352.39:/data\"]", enabled: true, selinux: "Z",
			want: "nvidia_driver_352.39:/data"},
		{name: "driver volume, relabelled", options: volumeDriver + "volumes = [\"nvidia_driver_352.39:/data:ro,z\"]", enabled: true,
			wantError: `volumes[0]: "nvidia_driver_352.39" shows driver volumes`},
		{name: "tree", options: `volumes = ["VOLUMES/nvidia_driver/352.39/lib64:/data:ro"]`, enabled: true, selinux: "z",
			want: "VOLUMES/nvidia_driver/352.39/lib64:/data:ro"},
		{name: "tree, relabelled", options: `volumes = ["VOLUMES/nvidia_driver/352.39:/data:Z"]`, enabled: true,
			wantError: "must not be relabelled; leave the mode z or Z out"},
		{name: "above the trees, relabelled", options: `volumes = ["VOLUMES/..:/data:z"]`, enabled: true, wantError: "must not be relabelled"},
		{name: "link to a tree, relabelled", options: `volumes = ["LINK/352.39:/data:z"]`, enabled: true, wantError: "must not be relabelled"},
		{name: "beside the trees", options: `volumes = ["VOLUMES-2/x:/data:z"]`, enabled: true, want: "VOLUMES-2/x:/data:z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := onDisk(t, newInput(t, ""))
			in.Options = decodeTask(t, "image = \"x\"\n"+place(in, tc.options))
			in.Plugin.GPU.VolumesPath = volumes
			in.Plugin.Volumes.Enabled, in.Plugin.Volumes.SELinuxLabel = tc.enabled, tc.selinux
			if tc.wantError != "" {
				assembleError(t, in, tc.wantError)
				return
			}
			h := assemble(t, in).HostConfig
			must.Eq(t, place(in, tc.want), h.Binds[3])
			must.Eq(t, in.Options.VolumeDriver, h.VolumeDriver)
		})
	}
}

// TestMounts_Links: what a task's link leads to is what counts (task-driver CC-5).
func TestMounts_Links(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, link, target string
		source, want       string // want: the engine's source, empty for a refusal
	}{
		{"out", "web/local/l", "/etc", "local/l", ""},
		{"out by a parent", "web/local/l", "../../..", "local/l", ""},
		{"out, below", "web/local/l", "/", "local/l/etc", ""},
		{"out, dangling", "web/local/l", "/nowhere/at/all", "local/l", ""},
		{"out by two links", "web/local/l", "m", "local/l", ""},
		{"endless", "web/local/m", "m", "local/m", ""},
		{"within", "web/local/l", "../../alloc", "local/l", "ALLOC/alloc"},
		{"within, missing", "web/local/l", "../../alloc/new", "local/l/x", "ALLOC/alloc/new/x"},
	} {
		for _, kind := range []struct{ name, options string }{
			{"volumes", `volumes = ["SOURCE:/data"]`},
			{"mount", "mount {\n type = \"bind\"\n source = \"SOURCE\"\n target = \"/data\"\n}"},
		} {
			t.Run(tc.name+" "+kind.name, func(t *testing.T) {
				in := onDisk(t, newInput(t, ""))
				in.Options = decodeTask(t, "image = \"x\"\n"+strings.ReplaceAll(kind.options, "SOURCE", tc.source))
				if tc.name == "out by two links" {
					must.NoError(t, os.Symlink("/etc", filepath.Join(in.Task.AllocDir, "web/local/m")))
				}
				must.NoError(t, os.Symlink(tc.target, filepath.Join(in.Task.AllocDir, tc.link)))
				if tc.want == "" {
					_, _, err := Assemble(in)
					must.Error(t, err)
					return
				}
				h := assemble(t, in).HostConfig
				if kind.name == "mount" {
					must.Eq(t, allocPath(in, tc.want), h.Mounts[0].Source)
				} else {
					must.Eq(t, allocPath(in, tc.want)+":/data", h.Binds[3])
				}
			})
		}
	}
}

// TestMounts_LinkedAllocDir: the operator's own links on the way to the
// allocation are no escape.
func TestMounts_LinkedAllocDir(t *testing.T) {
	t.Parallel()
	in := onDisk(t, newInput(t, `volumes = ["local/x:/data"]`))
	link := filepath.Join(t.TempDir(), "allocs")
	must.NoError(t, os.Symlink(in.Task.AllocDir, link))
	in.Task.AllocDir = link
	must.Eq(t, link+"/web/local/x:/data", assemble(t, in).HostConfig.Binds[3])
}

func TestMounts_Mount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, options string
		enabled       bool
		want          mount.Mount
		wantError     string
	}{
		{name: "bind relative", options: `type = "bind"
			source = "data"`, want: mount.Mount{Type: "bind", Source: "ALLOC/web/data", Target: "/data"}},
		{name: "bind options", options: "type = \"bind\"\nsource = \"data\"\nreadonly = true\nbind_options {\n propagation = \"rshared\"\n}",
			want: mount.Mount{Type: "bind", Source: "ALLOC/web/data", Target: "/data", ReadOnly: true, BindOptions: &mount.BindOptions{Propagation: "rshared"}}},
		{name: "bind outside", options: "type = \"bind\"\nsource = \"/srv\"", wantError: `mount[0]: volumes are not enabled; cannot mount host path: "/srv"`},
		{name: "bind relative outside", options: "type = \"bind\"\nsource = \"../../x\"", wantError: `volumes are not enabled; cannot mount host path`},
		{name: "bind outside, enabled", options: "type = \"bind\"\nsource = \"/srv\"", enabled: true, want: mount.Mount{Type: "bind", Source: "/srv", Target: "/data"}},
		{name: "volume", options: `source = "v"`, wantError: `mount[0]: volumes are not enabled; cannot mount volume: "v"`},
		{name: "volume, enabled", options: `source = "v"`, enabled: true, want: mount.Mount{Type: "volume", Source: "v", Target: "/data"}},
		{name: "volume options", enabled: true,
			options: "volume_options {\n no_copy = true\n labels {\n a = \"b\"\n }\n driver_config {\n name = \"d\"\n options {\n o = \"p\"\n }\n }\n}",
			want: mount.Mount{Type: "volume", Target: "/data", VolumeOptions: &mount.VolumeOptions{
				NoCopy: true, Labels: map[string]string{"a": "b"}, DriverConfig: &mount.Driver{Name: "d", Options: map[string]string{"o": "p"}}}}},
		{name: "tmpfs", options: `type = "tmpfs"`, want: mount.Mount{Type: "tmpfs", Target: "/data"}},
		{name: "tmpfs options", options: "type = \"tmpfs\"\ntmpfs_options {\n size = 5\n mode = 0700\n}",
			want: mount.Mount{Type: "tmpfs", Target: "/data", TmpfsOptions: &mount.TmpfsOptions{SizeBytes: 5, Mode: 0o700}}},
		{name: "subpath on an old engine", enabled: true, options: "volume_options {\n subpath = \"s\"\n}",
			wantError: `mount[0].volume_options.subpath: "s" needs engine API 1.45; this engine speaks 1.41`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := onDisk(t, newInput(t, "mount {\n target = \"/data\"\n"+tc.options+"\n}"))
			in.Plugin.Volumes.Enabled = tc.enabled
			if tc.wantError != "" {
				assembleError(t, in, tc.wantError)
				return
			}
			tc.want.Source = allocPath(in, tc.want.Source)
			must.Eq(t, []mount.Mount{tc.want}, assemble(t, in).HostConfig.Mounts)
		})
	}
}

func TestMounts_Subpath(t *testing.T) {
	t.Parallel()
	in := newInput(t, "mounts {\n target = \"/data\"\n source = \"v\"\n volume_options {\n subpath = \"s\"\n }\n}")
	in.Plugin.Volumes.Enabled, in.Engine.APIVersion = true, "1.45"
	must.Eq(t, "s", assemble(t, in).HostConfig.Mounts[0].VolumeOptions.Subpath)
}

// TestMounts_OptionsOfOtherTypes: engines since API 1.42 refuse them (task-driver AN-2).
func TestMounts_OptionsOfOtherTypes(t *testing.T) {
	t.Parallel()
	in := newInput(t, "mount {\n type = \"tmpfs\"\n target = \"/data\"\n bind_options {\n propagation = \"shared\"\n }\n}")
	r := assembleWarns(t, in, `mount[0]: bind_options was ignored, because the mount's type is "tmpfs"`)
	must.Eq(t, []mount.Mount{{Type: "tmpfs", Target: "/data"}}, r.HostConfig.Mounts)
}

func TestMounts_Nomad(t *testing.T) {
	t.Parallel()
	in := newInput(t, "")
	var want []mount.Mount
	for mode, propagation := range map[string]mount.Propagation{
		"": "rprivate", "private": "rprivate", "host-to-task": "rslave", "bidirectional": "rshared", "odd": "odd",
	} {
		in.Task.Mounts = append(in.Task.Mounts, &drivers.MountConfig{HostPath: "/srv/" + mode, TaskPath: "/m/" + mode, Readonly: mode == "", PropagationMode: mode})
		want = append(want, mount.Mount{Type: "bind", Source: "/srv/" + mode, Target: "/m/" + mode, ReadOnly: mode == "",
			BindOptions: &mount.BindOptions{Propagation: propagation}})
	}
	must.Eq(t, want, assemble(t, in).HostConfig.Mounts)
}

func TestMounts_Order(t *testing.T) {
	t.Parallel()
	in := grant(withGroup(newInput(t, "mounts {\n type = \"tmpfs\"\n target = \"/2\"\n}\nmount {\n type = \"tmpfs\"\n target = \"/1\"\n}")))
	in.Task.DNS = &drivers.DNSConfig{}
	in.Task.Mounts = []*drivers.MountConfig{{HostPath: "/srv", TaskPath: "/3"}}
	var targets []string
	for _, m := range assemble(t, in).HostConfig.Mounts {
		targets = append(targets, m.Target)
	}
	must.Eq(t, []string{"/1", "/2", "/etc/hosts", "/etc/resolv.conf", "/3", "/usr/local/nvidia"}, targets)
}

func TestMounts_Duplicates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, options, want string }{
		{"two mounts", "mount {\n type = \"tmpfs\"\n target = \"/a\"\n}\nmounts {\n type = \"tmpfs\"\n target = \"/a/\"\n}", "Duplicate mount point: /a"},
		{"a volume and a mount", "volumes = [\"x:/a\"]\nmount {\n type = \"tmpfs\"\n target = \"/a\"\n}", "Duplicate mount point: /a"},
		{"a tmpfs and a mount", "tmpfs = [\"/a:size=1m\"]\nmount {\n type = \"tmpfs\"\n target = \"/a\"\n}", "Duplicate mount point: /a"},
		{"the task's directory", `volumes = ["x:/local"]`, "Duplicate mount point: /local"},
	} {
		t.Run(tc.name, func(t *testing.T) { assembleError(t, newInput(t, tc.options), tc.want) })
	}
	in := grant(newInput(t, "mount {\n type = \"tmpfs\"\n target = \"/usr/local/nvidia\"\n}"))
	assembleError(t, in, "Duplicate mount point: /usr/local/nvidia")
}

func TestMounts_Tmpfs(t *testing.T) {
	t.Parallel()
	must.Eq(t, map[string]string{"/a": "", "/b": "size=1m,mode=700"}, assemble(t, newInput(t, `tmpfs = ["/a", "/b:size=1m,mode=700"]`)).HostConfig.Tmpfs)
	must.Nil(t, assemble(t, newInput(t, "")).HostConfig.Tmpfs)
}
