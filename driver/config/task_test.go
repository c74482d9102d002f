// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/helper/pluginutils/hclutils"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

func ptr[T any](v T) *T { return &v }

func TestTask_Defaults(t *testing.T) {
	t.Parallel()
	want := &Task{
		Image:                "redis:7",
		ImagePullTimeoutText: "5m", ImagePullTimeout: 5 * time.Minute,
		CPUCFSPeriod:            100000,
		ContainerExistsAttempts: 5,
		GPU:                     TaskGPU{MountPath: "/usr/local/nvidia", OnUnhealthy: "event"},
	}
	// Lists of blocks are empty, not nil; that is all the difference.
	normal := func(task *Task) *Task {
		task.Devices, task.Mount, task.Mounts = nil, nil, nil
		return task
	}
	for _, tc := range []struct{ name, text string }{
		{"image only", `image = "redis:7"`},
		{"empty blocks", "image = \"redis:7\"\nauth {}\nhealthchecks {}\nlogging {}\nstorage_opt {}\ngpu {}\nlogs {}\nlabels {}\nulimit {}\nport_map {}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseTask(t, tc.text)
			must.NoError(t, err)
			got.StorageOpt, got.Labels, got.Ulimit, got.PortMap = nil, nil, nil, nil
			must.Eq(t, want, normal(got))
		})
	}
	direct := &Task{Image: "redis:7"}
	must.NoError(t, direct.Validate())
	direct.ImagePullTimeoutText = "5m"
	must.Eq(t, want, direct)
}

func TestTask_NullIsAbsent(t *testing.T) {
	t.Parallel()
	options := map[string]any{}
	for _, name := range taskKeys {
		options[name] = nil
	}
	options["image"] = "redis:7"
	got, err := DecodeTask(encodeTaskOptions(t, options))
	must.NoError(t, err)
	want, err := parseTask(t, `image = "redis:7"`)
	must.NoError(t, err)
	must.Eq(t, want, got)
	must.SliceEmpty(t, got.Devices)
	must.SliceEmpty(t, got.AllMounts())

	options["image"] = nil
	_, err = DecodeTask(encodeTaskOptions(t, options))
	must.ErrorContains(t, err, "image name required")
}

func TestTask_AllOptions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/task_all.hcl")
	must.NoError(t, err)
	got, err := parseTask(t, string(text))
	must.NoError(t, err)
	want := &Task{
		Image:                "example.org/app:1",
		ImagePullTimeoutText: "7m", ImagePullTimeout: 7 * time.Minute,
		ForcePull: true, Load: "app.tar",
		Auth: TaskAuth{"u", "p", "e", "s"}, AuthSoftFail: true,
		OS: "linux", Arch: "arm", Variant: "v7",
		Entrypoint: []string{"/entry"}, Command: "run", Args: []string{"a", "b"},
		WorkDir: "/work", Hostname: "h", Interactive: true, TTY: true, Init: ptr(true),
		Labels: StringMap{"k": "v"}, Healthchecks: Healthchecks{true}, ReadonlyRootfs: true,
		Privileged: true, CapAdd: []string{"CAP_X"}, CapDrop: []string{"all"},
		SecurityOpt: []string{"no-new-privileges", "seccomp=unconfined", "label:disable"}, AppArmorProfile: "profile",
		PidMode: "host", UTSMode: "host", UsernsMode: "host", IPCMode: "host", CgroupNS: "private",
		GroupAdd: []string{"g"}, Runtime: "runc",
		CPUHardLimit: true, CPUCFSPeriod: 2000, CpusetCPUs: "0-3",
		MemoryHardLimitMiB: 8, MemorySwapMiB: ptr(int64(9)), MemorySwappiness: ptr(int64(10)),
		OOMScoreAdj: -11, PidsLimit: 12, ShmSizeBytes: 13,
		StorageOpt: map[string]string{"size": "14G"},
		Sysctl:     StringMap{"net.core.somaxconn": "15"},
		Ulimit:     StringMap{"nofile": "16:17"},
		Devices: []Device{
			{HostPath: "/dev/a", ContainerPath: "/dev/b", CgroupPermissions: "r"},
			{HostPath: "/dev/c"},
		},
		Volumes: []string{"a:/b:ro"}, VolumeDriver: "pxd",
		Mount: []Mount{{Type: "bind", Target: "/t1", Source: "/s1", ReadOnly: true, BindOptions: BindOptions{"rshared"}}},
		Mounts: []Mount{
			{Type: "volume", Target: "/t2", Source: "s2", VolumeOptions: VolumeOptions{
				NoCopy: true, Subpath: "sub", Labels: StringMap{"l": "m"},
				DriverConfig: VolumeDriver{"d", StringMap{"o": "p"}},
			}},
			{Type: "tmpfs", Target: "/t3", TmpfsOptions: TmpfsOptions{18, 0o777}},
		},
		Tmpfs:       []string{"/t4:size=1m"},
		Logging:     TaskLogging{"journald", "gelf", StringMap{"tag": "x"}},
		NetworkMode: "net", NetworkAliases: []string{"alias"},
		IPv4Address: "192.0.2.1", IPv6Address: "2001:db8::1", MacAddress: "02:68:b3:29:da:98",
		DNSServers: []string{"192.0.2.2"}, DNSSearchDomains: []string{"example.org"}, DNSOptions: []string{"ndots:1"},
		ExtraHosts: []string{"a:192.0.2.3", "b:2001:db8::2"},
		Ports:      []string{"http"}, PortMap: NumberMap{"http": 80},
		AdvertiseIPv6Address: true, ContainerExistsAttempts: 19,
		GPU:  TaskGPU{ptr(20), "warn", "/opt/nvidia", "fail", []string{"/usr/lib/x86_64-linux-gnu"}},
		Logs: TaskLogs{21, 22},
	}
	must.Eq(t, want, got)
	for _, o := range flatten("", taskSchema) {
		if o.path == "isolation" { // no value of it is right
			continue
		}
		key := lastKey(o.path)
		must.True(t, regexp.MustCompile(`(?m)^\s*`+key+`\s`).Match(text), must.Sprintf("the text lacks %q", o.path))
	}
	tc := &drivers.TaskConfig{}
	must.NoError(t, tc.EncodeConcreteDriverConfig(got))
	again, err := DecodeTask(tc)
	must.NoError(t, err)
	must.Eq(t, want, again)
}

// TestTask_MapForms: every map-like option takes the four forms of task-driver CF-3.
func TestTask_MapForms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, value string
		get         func(*Task) map[string]string
	}{
		{"labels", `"1"`, func(o *Task) map[string]string { return o.Labels }},
		{"sysctl", `"1"`, func(o *Task) map[string]string { return o.Sysctl }},
		{"ulimit", `"1"`, func(o *Task) map[string]string { return o.Ulimit }},
		{"port_map", `1`, func(o *Task) map[string]string {
			text := make(map[string]string)
			for label := range o.PortMap {
				text[label] = "1"
			}
			return text
		}},
	} {
		want := map[string]string{"a": "1", "b": "1"}
		for _, form := range []struct{ name, text string }{
			{"block", "N {\n a = V\n b = V\n}"},
			{"attribute", "N = {\n a = V\n b = V\n}"},
			{"repeated block", "N {\n a = V\n}\nN {\n b = V\n}"},
		} {
			t.Run(tc.name+" "+form.name, func(t *testing.T) {
				text := strings.NewReplacer("N", tc.name, "V", tc.value).Replace(form.text)
				got, err := parseTask(t, "image = \"x\"\n"+text)
				must.NoError(t, err)
				must.Eq(t, want, tc.get(got))
			})
		}
		for _, form := range []struct{ name, text string }{
			{"one object", `[{"a": V, "b": V}]`},
			{"an object each", `[{"a": V}, {"b": V}]`},
			{"later wins", `[{"a": V, "b": V}, {"b": V}]`},
		} {
			t.Run(tc.name+" JSON "+form.name, func(t *testing.T) {
				text := strings.ReplaceAll(form.text, "V", tc.value)
				options := hclutils.JsonConfigToInterface(t, `{"Config": {"image": "x", "`+tc.name+`": `+text+`}}`)
				got, err := DecodeTask(encodeTaskOptions(t, options))
				must.NoError(t, err)
				must.Eq(t, want, tc.get(got))
			})
		}
	}
}

// TestTask_JSONJob decodes blocks from JSON, where they are objects or arrays of them.
func TestTask_JSONJob(t *testing.T) {
	t.Parallel()
	options := hclutils.JsonConfigToInterface(t, `{"Config": {
		"image": "x", "args": ["a"], "tty": true, "memory_hard_limit": 512,
		"auth": [{"username": "u"}],
		"devices": [{"host_path": "/dev/a"}, {"host_path": "/dev/b"}],
		"mount": {"target": "/t", "source": "s", "volume_options": {"labels": [{"l": "m"}]}},
		"logging": {"config": [{"tag": "t"}]},
		"gpu": {"count": 0}
	}}`)
	got, err := DecodeTask(encodeTaskOptions(t, options))
	must.NoError(t, err)
	must.Eq(t, "u", got.Auth.Username)
	must.Len(t, 2, got.Devices)
	must.Eq(t, StringMap{"l": "m"}, got.Mount[0].VolumeOptions.Labels)
	must.Eq(t, StringMap{"tag": "t"}, got.Logging.Config)
	must.Eq(t, 0, *got.GPU.Count)
	must.Eq(t, 512, got.MemoryHardLimitMiB)
}

// TestTask_NoPidsLimitOfItsOwn: the engine's -1 is the docker driver's 0.
func TestTask_NoPidsLimitOfItsOwn(t *testing.T) {
	t.Parallel()
	got, err := parseTask(t, "image = \"x\"\npids_limit = -1")
	must.NoError(t, err)
	must.Eq(t, 0, got.PidsLimit)
}

func TestTask_Rules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, good, bad, want string }{
		{"image", ``, `image = ""`, `image: image name required`},
		{"load", `load = "img/a.tar"`, `load = "https://example.org/a.tar"`,
			`load: "https://example.org/a.tar" is a URL; fetch it with an artifact block and name the file below local/`},
		{"image scheme", `image = "https://x"`, `image = "https://"`, `image: image name required`},
		{"image_pull_timeout", `image_pull_timeout = "1s"`, `image_pull_timeout = "1d"`, `Failed to parse image_pull_timeout: `},
		{"zero image_pull_timeout", `image_pull_timeout = "1s"`, `image_pull_timeout = "0s"`, `image_pull_timeout: "0s" must be above zero`},
		{"variant", "arch = \"arm\"\nvariant = \"v7\"", `variant = "v7"`, `variant: "v7" needs arch`},
		{"command", `command = "a b"`, `command = " "`, `command: command empty`},
		{"command spaces", `command = "a"`, `command = "a "`, `command: command contains extra white space: "a "`},
		{"isolation", ``, `isolation = "hyperv"`, `isolation: cannot use isolation mode "hyperv" on linux`},
		{"cgroupns", `cgroupns = "host"`, `cgroupns = "x"`, `cgroupns: "x" is not known; use one of "host", "private"`},
		{"pid_mode", `pid_mode = "container:x"`, `pid_mode = "private"`, `pid_mode: "private" is not known; use one of "host"`},
		{"pid_mode of nobody", `pid_mode = "host"`, `pid_mode = "container:"`, `pid_mode: "container:" is not known`},
		{"uts_mode", `uts_mode = "host"`, `uts_mode = "container:x"`, `uts_mode: "container:x" is not known; use one of "host"`},
		{"userns_mode", `userns_mode = "host"`, `userns_mode = "keep-id"`, `userns_mode: "keep-id" is not known; use one of "host"`},
		{"ipc_mode", `ipc_mode = "task:web"`, `ipc_mode = "public"`, `ipc_mode: "public" is not known; use one of "none", "private", "shareable", "host"`},
		{"work_dir", `work_dir = "/w"`, `work_dir = "w"`, `work_dir: "w" must be absolute`},
		{"hostname", `hostname = "h"`, `hostname = "` + strings.Repeat("h", 65) + `"`, `has more than 64 characters`},
		{"security_opt", `security_opt = ["no-new-privileges"]`, `security_opt = ["privileges"]`, `security_opt: invalid security_opt: "privileges"`},
		{"label", `labels { a = "b" }`, `labels { "" = "b" }`, `labels: a label must have a name`},
		{"cpu_cfs_period", `cpu_cfs_period = 1000000`, `cpu_cfs_period = 1000001`, `cpu_cfs_period: invalid value for cpu_cfs_period: 1000001`},
		{"negative cpu_cfs_period", `cpu_cfs_period = 0`, `cpu_cfs_period = -1`, `cpu_cfs_period: invalid value for cpu_cfs_period: -1`},
		{"small cpu_cfs_period", `cpu_cfs_period = 1000`, `cpu_cfs_period = 999`, `cpu_cfs_period: invalid value for cpu_cfs_period: 999 is below the engine's limit`},
		{"memory_hard_limit", `memory_hard_limit = 1`, `memory_hard_limit = -1`, `memory_hard_limit: -1 must not be negative`},
		{"memory_swap", `memory_swap = -1`, `memory_swap = -2`, `memory_swap: -2 is not known`},
		{"memory_swappiness", `memory_swappiness = 100`, `memory_swappiness = 101`, `memory_swappiness: 101 is out of range`},
		{"oom_score_adj", `oom_score_adj = 1000`, `oom_score_adj = 1001`, `oom_score_adj: 1001 is out of range`},
		{"shm_size", `shm_size = 1`, `shm_size = -1`, `shm_size: -1 must not be negative`},
		{"ulimit empty", `ulimit { n = "-1" }`, `ulimit { n = "" }`, `ulimit: Malformed ulimit specification n: "", cannot be empty`},
		{"ulimit soft", `ulimit { n = "1" }`, `ulimit { n = "x:1" }`, `ulimit: Malformed soft ulimit n: x:1`},
		{"ulimit hard", `ulimit { n = "1:2" }`, `ulimit { n = "1:" }`, `ulimit: Malformed hard ulimit n: 1:`},
		{"device", "devices {\n host_path = \"/dev/a\"\n}", "devices {\n container_path = \"/dev/a\"\n}", `devices[0].host_path: host path must be set in configuration for devices`},
		{"device relative", "devices {\n host_path = \"/dev/a\"\n}", "devices {\n host_path = \"a\"\n}", `devices[0].host_path: "a" must be absolute`},
		{"device target", "devices {\n host_path = \"/a\"\n container_path = \"/b\"\n}", "devices {\n host_path = \"/a\"\n container_path = \"b\"\n}", `devices[0].container_path: "b" must be absolute`},
		{"device permissions", "devices {\n host_path = \"/a\"\n cgroup_permissions = \"mr\"\n}", "devices {\n host_path = \"/a\"\n cgroup_permissions = \"rxb\"\n}",
			`devices[0].cgroup_permissions: invalid cgroup permission string: "rxb"`},
		{"volume", `volumes = ["a:/b:ro"]`, `volumes = ["/b"]`, `volumes[0]: invalid docker volume "/b": not <src>:<destination> format`},
		{"volume empty", `volumes = ["a:/b"]`, `volumes = [":/b"]`, `volumes[0]: invalid docker volume ":/b": not <src>:<destination> format`},
		{"volume fields", `volumes = ["a:/b:z"]`, `volumes = ["a:/b:ro:z"]`, `volumes[0]: invalid docker volume "a:/b:ro:z": more than`},
		{"mount type", "mount {\n target = \"/a\"\n}", "mount {\n type = \"nfs\"\n target = \"/a\"\n}", `mount[0].type: invalid mount type: "nfs"; use one of "bind", "volume", "tmpfs"`},
		{"mounts target", "mounts {\n target = \"/a\"\n}", "mounts {\n target = \"a\"\n}", `mounts[0].target: "a" must be absolute`},
		{"tmpfs source", "mount {\n type = \"tmpfs\"\n target = \"/a\"\n}", "mount {\n type = \"tmpfs\"\n target = \"/a\"\n source = \"b\"\n}",
			`mount[0].source: invalid source, must be "" for tmpfs: "b"`},
		{"propagation", "mount {\n type = \"bind\"\n target = \"/a\"\n bind_options {\n propagation = \"slave\"\n }\n}",
			"mount {\n type = \"bind\"\n target = \"/a\"\n bind_options {\n propagation = \"x\"\n }\n}", `mount[0].bind_options.propagation: "x" is not known`},
		{"tmpfs size", "mount {\n type = \"tmpfs\"\n target = \"/a\"\n tmpfs_options {\n size = 1\n }\n}",
			"mount {\n type = \"tmpfs\"\n target = \"/a\"\n tmpfs_options {\n size = -1\n }\n}", `mount[0].tmpfs_options.size: -1 bytes must not be negative`},
		{"tmpfs mode", "mount {\n type = \"tmpfs\"\n target = \"/a\"\n tmpfs_options {\n mode = 01777\n }\n}",
			"mount {\n type = \"tmpfs\"\n target = \"/a\"\n tmpfs_options {\n mode = 65536\n }\n}", `mount[0].tmpfs_options.mode: 65536 is no file mode`},
		{"tmpfs list", `tmpfs = ["/a"]`, `tmpfs = ["a"]`, `tmpfs[0]: "a" must start with an absolute path`},
		{"ipv4", `ipv4_address = "192.0.2.1"`, `ipv4_address = "::1"`, `ipv4_address: "::1" is no such address`},
		{"ipv6", `ipv6_address = "::1"`, `ipv6_address = "192.0.2.1"`, `ipv6_address: "192.0.2.1" is no such address`},
		{"mac", `mac_address = "02:42:ac:11:00:02"`, `mac_address = "02"`, `mac_address: "02": `},
		{"extra_hosts", `extra_hosts = ["a:::1", "b:[::1]", "c:host-gateway"]`, `extra_hosts = ["a"]`, `extra_hosts[0]: invalid hosts entry "a"`},
		{"extra_hosts address", `extra_hosts = ["a:192.0.2.1"]`, `extra_hosts = ["a:b"]`, `extra_hosts[0]: invalid hosts entry "a:b": invalid IP address "b"`},
		{"extra_hosts line", `extra_hosts = ["a:192.0.2.1"]`, `extra_hosts = ["a\n1.2.3.4 bank:192.0.2.1"]`, `extra_hosts[0]: invalid hosts entry`},
		{"attempts", `container_exists_attempts = 1`, `container_exists_attempts = -1`, `container_exists_attempts: -1 must be 1 or more`},
		{"gpu count", `gpu { count = 0 }`, `gpu { count = -1 }`, `gpu.count: -1 must not be negative`},
		{"gpu requirements", `gpu { requirements = "warn" }`, `gpu { requirements = "none" }`, `gpu.requirements: "none" is not known`},
		{"gpu mount_path", `gpu { mount_path = "/opt/nv" }`, `gpu { mount_path = "nv" }`, `gpu.mount_path: "nv" must be absolute`},
		{"gpu mount_path root", `gpu { mount_path = "/a" }`, `gpu { mount_path = "/a/.." }`, `gpu.mount_path: "/a/.." cannot hold the driver volume`},
		{"gpu extra_library_targets", `gpu { extra_library_targets = ["/a", "/b"] }`, `gpu { extra_library_targets = ["/a", "lib"] }`, `gpu.extra_library_targets: "lib" must be absolute; use for example "/usr/lib/x86_64-linux-gnu"`},
		{"gpu extra_library_targets twice", `gpu { extra_library_targets = ["/a"] }`, `gpu { extra_library_targets = ["/a", "/a/"] }`, `gpu.extra_library_targets: "/a" is listed twice`},
		{"gpu extra_library_targets root", `gpu { extra_library_targets = ["/a"] }`, `gpu { extra_library_targets = ["/"] }`, `gpu.extra_library_targets: "/" cannot hold libraries`},
		{"gpu mount_path list", `gpu { mount_path = "/a" }`, `gpu { mount_path = "/a:/b" }`, `gpu.mount_path: "/a:/b" cannot hold the driver volume`},
		{"gpu on_unhealthy", `gpu { on_unhealthy = "ignore" }`, `gpu { on_unhealthy = "stop" }`, `gpu.on_unhealthy: "stop" is not known; use one of "event", "fail", "ignore"`},
		{"logs max_files", `logs { max_files = 1 }`, `logs { max_files = -1 }`, `logs.max_files: -1 must be 1 or more`},
		{"logs max_file_size", `logs { max_file_size = 1 }`, `logs { max_file_size = -1 }`, `logs.max_file_size: -1 must be 1 or more`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withImage := func(text string) string {
				if strings.HasPrefix(text, "image = ") {
					return text
				}
				return "image = \"redis:7\"\n" + text
			}
			_, err := parseTask(t, withImage(tc.good))
			must.NoError(t, err)
			_, err = parseTask(t, withImage(tc.bad))
			must.ErrorContains(t, err, tc.want)
			must.ErrorContains(t, err, "task config: ")
			must.ErrorIs(t, err, ErrInvalid)
		})
	}
}

func TestTask_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parseTask(t, "command = \" \"\nshm_size = -1\nvolumes = [\"a\", \"b:/c\", \"d\"]")
	must.Error(t, err)
	must.Len(t, 5, strings.Split(err.Error(), "\n"))
}

func TestTask_UndecodableValue(t *testing.T) {
	t.Parallel()
	tc := &drivers.TaskConfig{}
	must.NoError(t, tc.EncodeConcreteDriverConfig(map[string]any{"image": []string{"x"}}))
	_, err := DecodeTask(tc)
	must.ErrorContains(t, err, "failed to decode driver config")
}
