// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/shoenig/test/must"
)

func TestPlugin_EmptyIsDefault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text string }{
		{"no option", ``},
		{"empty blocks", `auth {} tls {} logging {} gc { dangling_containers {} } volumes {} logs {} gpu { defaults {} }`},
		{"part of gc", `gc { image = true }`},
		{"part of the reaper", `gc { dangling_containers { enabled = true } }`},
		{"part of gpu", `gpu { driver_root = "/" }`},
		{"part of gpu defaults", `gpu { defaults { shm_size = 0 } }`},
		{"part of logs", `logs { max_files = 10 }`},
		{"part of logging", `logging { type = "json-file" }`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsePlugin(t, tc.text)
			must.NoError(t, err)
			must.Eq(t, DefaultPlugin(), got)
		})
	}
	got, err := DecodePlugin(nil)
	must.NoError(t, err)
	must.Eq(t, DefaultPlugin(), got)
	must.NoError(t, got.Validate())
	must.Eq(t, DefaultPlugin(), got)
}

func TestPlugin_NullIsAbsent(t *testing.T) {
	t.Parallel()
	options := make(map[string]any)
	for _, name := range pluginKeys {
		options[name] = nil
	}
	got, err := decodePluginOptions(t, options)
	must.NoError(t, err)
	must.Eq(t, DefaultPlugin(), got)
}

func TestPlugin_AllOptions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/plugin_all.hcl")
	must.NoError(t, err)
	got, err := parsePlugin(t, string(text))
	must.NoError(t, err)
	want := &Plugin{
		Endpoint:    "tcp://192.0.2.1:2376",
		Auth:        Auth{Config: "/etc/docker/config.json", Helper: "ecr-login"},
		TLS:         TLS{Cert: "/tls/cert.pem", Key: "/tls/key.pem", CA: "/tls/ca.pem"},
		ExtraLabels: []string{"job_name", "task*"},
		Logging:     Logging{Type: "journald", Config: map[string]string{"tag": "x"}},
		GC: GC{
			ImageDelayText: "7m", ImageDelay: 7 * time.Minute, ImageScope: ImageScopeManaged,
			Dangling: Dangling{
				PeriodText: "8m", Period: 8 * time.Minute,
				CreationGraceText: "9m", CreationGrace: 9 * time.Minute, DryRun: true,
			},
		},
		Volumes:                   Volumes{Enabled: true, SELinuxLabel: "z"},
		AllowPrivileged:           true,
		AllowCaps:                 []string{"chown", "net_raw", "kill"},
		NVIDIARuntime:             "nvidia-old",
		AllowRuntimes:             []string{"runc", "kata"},
		InfraImage:                "example.org/pause:1",
		InfraImagePullTimeoutText: "11m", InfraImagePullTimeout: 11 * time.Minute,
		PullActivityTimeoutText: "12m", PullActivityTimeout: 12 * time.Minute,
		PidsLimit: 13, DisableLogCollection: true, CompatLabels: true,
		WindowsAllowInsecureContainerAdmin: true,
		APITimeoutText:                     "14s", APITimeout: 14 * time.Second,
		EngineDownGraceText: "15m", EngineDownGrace: 15 * time.Minute,
		Logs: Logs{Collector: CollectorDriver, MaxFiles: 16, MaxFileSizeMiB: 17},
		GPU: GPU{
			DriverRoot: "/run/nvidia/driver", NVMLLibrary: "/opt/libnvidia-ml.so.1",
			VolumeMode: VolumeModeBind, VolumesPath: "/srv/volumes", VolumeSocketDir: "/srv/plugins",
			VolumeFiles: "copy", Capabilities: []string{"compute", "utility"}, JobMappingDir: "/run/jobs", InjectHealth: []string{"GPU-1:79"},
			Health:       GPUHealth{XIDIgnore: []string{"74"}, XIDFatal: []string{"13"}},
			Requirements: RequirementsWarn, Injection: InjectionCDI,
			Defaults: GPUDefaults{ShmSizeBytes: 18, IPCMode: "host", Init: true, Ulimit: StringMap{"memlock": "-1"}},
		},
	}
	must.Eq(t, want, got)
	for _, o := range flatten("", pluginSchema) {
		key := lastKey(o.path)
		must.True(t, regexp.MustCompile(`(?m)^\s*`+key+`\s`).Match(text), must.Sprintf("the text lacks %q", o.path))
	}
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, got))
	again, err := DecodePlugin(data)
	must.NoError(t, err)
	must.Eq(t, want, again)
}

func TestPlugin_Logging(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       Logging
	}{
		{"absent", ``, Logging{"json-file", map[string]string{"max-file": "2", "max-size": "2m"}}},
		{"other type", `logging { type = "journald" }`, Logging{"journald", nil}},
		{"own rotation", `logging { config { max-size = "9m" } }`, Logging{"json-file", map[string]string{"max-size": "9m"}}},
		{"no rotation", `logging { config {} }`, Logging{"json-file", map[string]string{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsePlugin(t, tc.text)
			must.NoError(t, err)
			must.Eq(t, tc.want, got.Logging)
		})
	}
}

func TestPlugin_Rules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, good, bad, want string }{
		{"endpoint", `endpoint = "unix:///x"`, `endpoint = "/x"`,
			`endpoint: failed to get docker client: "/x" is not <scheme>://<address>; use for example "unix:///var/run/docker.sock"`},
		{"endpoint scheme", `endpoint = "https://x:1"`, `endpoint = "ftp://x"`,
			`endpoint: failed to get docker client: "ftp://x": the scheme "ftp" is not known; use one of "unix", "tcp", "http", "https"`},
		{"image_delay", `gc { image_delay = "0s" }`, `gc { image_delay = "1d" }`, `gc.image_delay: failed to parse 'image_delay' duration`},
		{"negative image_delay", `gc { image_delay = "1h" }`, `gc { image_delay = "-1s" }`, `gc.image_delay: "-1s" must not be negative`},
		{"image_scope", `gc { image_scope = "managed" }`, `gc { image_scope = "mine" }`, `gc.image_scope: "mine" is not known; use one of "all", "managed"`},
		{"period", `gc { dangling_containers { period = "1s" } }`, `gc { dangling_containers { period = "soon" } }`,
			`gc.dangling_containers.period: failed to parse 'period' duration`},
		{"zero period", `gc { dangling_containers { period = "1s" } }`, `gc { dangling_containers { period = "0s" } }`,
			`gc.dangling_containers.period: "0s" must be above zero`},
		{"creation_grace", `gc { dangling_containers { creation_grace = "1m" } }`, `gc { dangling_containers { creation_grace = "59s" } }`,
			`gc.dangling_containers.creation_grace: creation_grace is less than minimum: "59s"; use 1m0s or more`},
		{"infra_image_pull_timeout", `infra_image_pull_timeout = "1s"`, `infra_image_pull_timeout = "0"`,
			`infra_image_pull_timeout: "0" must be above zero; use for example "5m"`},
		{"pull_activity_timeout", `pull_activity_timeout = "1m"`, `pull_activity_timeout = "59s"`,
			`pull_activity_timeout: pull_activity_timeout is less than minimum: "59s"; use 1m0s or more`},
		{"api_timeout", `api_timeout = "1s"`, `api_timeout = "x"`, `api_timeout: failed to parse 'api_timeout' duration`},
		{"engine_down_grace", `engine_down_grace = "1s"`, `engine_down_grace = "-1s"`, `engine_down_grace: "-1s" must be above zero`},
		{"collector", `logs { collector = "driver" }`, `logs { collector = "me" }`, `logs.collector: "me" is not known; use one of "nomad", "driver"`},
		{"max_files", `logs { max_files = 1 }`, `logs { max_files = -1 }`, `logs.max_files: -1 must be 1 or more`},
		{"max_file_size", `logs { max_file_size = 1 }`, `logs { max_file_size = -1 }`, `logs.max_file_size: -1 must be 1 or more`},
		{"driver_root", `gpu { driver_root = "/x" }`, `gpu { driver_root = "x" }`, `gpu.driver_root: "x" must be absolute; use for example "/"`},
		{"nvml_library", `gpu { nvml_library = "/x" }`, `gpu { nvml_library = "x" }`, `gpu.nvml_library: "x" must be absolute`},
		{"volumes_path", `gpu { volumes_path = "/x" }`, `gpu { volumes_path = "var/lib/x" }`,
			`gpu.volumes_path: "var/lib/x" must be absolute; use for example "/var/lib/nvidia-docker/volumes"`},
		{"plugin mode needs a socket", `gpu { volume_mode = "plugin" }`, `gpu { volume_mode = "plugin" volume_socket_dir = "" }`, `gpu.volume_socket_dir: must not be empty with volume_mode = "plugin"`},
		{"volume_socket_dir", `gpu { volume_socket_dir = "/x" }`, `gpu { volume_socket_dir = "./x" }`, `gpu.volume_socket_dir: "./x" must be absolute`},
		{"job_mapping_dir", `gpu { job_mapping_dir = "/x" }`, `gpu { job_mapping_dir = "jobs" }`, `gpu.job_mapping_dir: "jobs" must be absolute; use for example "/run/gpu-docker-jobs"`},
		{"gpu health", `gpu { health { xid_ignore = ["74"] } }`, `gpu { health { xid_fatal = ["gpu lost"] } }`, `gpu.health: xid_fatal: "gpu lost" is neither an XID number nor "all"; give XID numbers or "all"`},
		{"inject_health", `gpu { inject_health = ["GPU-1:79"] }`, `gpu { inject_health = ["GPU-1"] }`, `gpu.inject_health: "GPU-1" is not "<GPU UUID>:<XID>"`},
		{"volume_mode", `gpu { volume_mode = "bind" }`, `gpu { volume_mode = "copy" }`, `gpu.volume_mode: "copy" is not known; use one of "plugin", "bind"`},
		{"volume_files", `gpu { volume_files = "link" }`, `gpu { volume_files = "move" }`, `gpu.volume_files: "move" is not known; use one of "auto", "link", "copy"`},
		{"capabilities", `gpu { capabilities = ["video"] }`, `gpu { capabilities = ["display"] }`, `gpu.capabilities: "display" is not known; use one of "all", "compute"`},
		{"no capabilities", `gpu { capabilities = ["ngx"] }`, `gpu { capabilities = [] }`, `gpu.capabilities: the list is empty`},
		{"api_address", `gpu { api_address = ":80" }`, `gpu { api_address = "localhost" }`, `gpu.api_address: "localhost" is not host:port`},
		{"api_address port", `gpu { api_address = "[::1]:1" }`, `gpu { api_address = "x:99999" }`, `gpu.api_address: "x:99999" is not host:port`},
		{"requirements", `gpu { requirements = "ignore" }`, `gpu { requirements = "off" }`, `gpu.requirements: "off" is not known; use one of "enforce", "warn", "ignore"`},
		{"injection", `gpu { injection = "runtime" }`, `gpu { injection = "hook" }`, `gpu.injection: "hook" is not known; use one of "volume", "cdi", "runtime"`},
		{"defaults shm_size", `gpu { defaults { shm_size = 1 } }`, `gpu { defaults { shm_size = -1 } }`, `gpu.defaults.shm_size: -1 bytes must not be negative`},
		{"defaults ulimit", `gpu { defaults { ulimit { stack = "1:2" } } }`, `gpu { defaults { ulimit { stack = "x" } } }`,
			`gpu.defaults.ulimit: Malformed soft ulimit stack: x`},
		{"defaults ipc_mode", `gpu { defaults { ipc_mode = "host" } }`, `gpu { defaults { ipc_mode = "task:x" } }`, `gpu.defaults.ipc_mode: "task:x" names one container`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parsePlugin(t, tc.good)
			must.NoError(t, err)
			_, err = parsePlugin(t, tc.bad)
			must.ErrorContains(t, err, "plugin config: "+tc.want)
			must.ErrorIs(t, err, ErrInvalid)
		})
	}
}

// TestPlugin_AsTheDockerDriver: what the built-in driver takes does not stop the
// agent here.
func TestPlugin_AsTheDockerDriver(t *testing.T) {
	t.Parallel()
	got, err := parsePlugin(t, `allow_caps = ["", "CAP_CHOWN", " "] pids_limit = -1`)
	must.NoError(t, err)
	must.Eq(t, []string{"chown"}, got.AllowCaps)
	must.Eq(t, 0, got.PidsLimit)
	got, err = parsePlugin(t, `allow_caps = [""]`)
	must.NoError(t, err)
	must.Eq(t, []string{}, got.AllowCaps, must.Sprint("nothing is allowed, not the default"))
}

func TestPlugin_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parsePlugin(t, `endpoint = "x" api_timeout = "x" gc { image_delay = "x" } gpu { driver_root = "x" volume_mode = "x" }`)
	must.Error(t, err)
	must.Len(t, 5, strings.Split(err.Error(), "\n"))
}
