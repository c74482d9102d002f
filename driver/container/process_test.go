// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/shoenig/test/must"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	in := newInput(t, `
		image = "https://example.org/a:1"
		entrypoint = ["/e", "x"]
		command = "c"
		args = ["1", "2"]
		work_dir = "/w"
		hostname = "h"
		interactive = true
		tty = true
		healthchecks { disable = true }
		readonly_rootfs = true
		group_add = ["g"]
		storage_opt { size = "1G" }
		sysctl { a = "1" }
		shm_size = 7
		os = "linux"
		arch = "arm"
		variant = "v7"`)
	in.Task.User = "nobody"
	r := assemble(t, in)
	must.Eq(t, "example.org/a:1", r.Config.Image)
	must.Eq(t, []string{"/e", "x"}, r.Config.Entrypoint)
	must.Eq(t, []string{"c", "1", "2"}, r.Config.Cmd)
	must.Eq(t, "/w", r.Config.WorkingDir)
	must.Eq(t, "h", r.Config.Hostname)
	must.Eq(t, "nobody", r.Config.User)
	must.True(t, r.Config.OpenStdin)
	must.True(t, r.Config.Tty)
	must.Eq(t, []string{"NONE"}, r.Config.Healthcheck.Test)
	must.True(t, r.HostConfig.ReadonlyRootfs)
	must.Eq(t, []string{"g"}, r.HostConfig.GroupAdd)
	must.Eq(t, map[string]string{"size": "1G"}, r.HostConfig.StorageOpt)
	must.Eq(t, map[string]string{"a": "1"}, r.HostConfig.Sysctls)
	must.Eq(t, int64(7), r.HostConfig.ShmSize)
	must.Eq(t, &ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}, r.Platform)
	must.Eq(t, "", string(r.HostConfig.RestartPolicy.Name))
}

func TestProcess_Absent(t *testing.T) {
	t.Parallel()
	r := assemble(t, newInput(t, ""))
	must.Nil(t, r.Config.Healthcheck)
	must.Nil(t, r.Config.Entrypoint)
	must.Nil(t, r.Config.Cmd)
	must.Nil(t, r.HostConfig.Init)
	must.Nil(t, r.Platform)
	must.Nil(t, r.Networking)
}

func TestProcess_Command(t *testing.T) {
	t.Parallel()
	must.Eq(t, []string{"a", "b"}, assemble(t, newInput(t, `args = ["a", "b"]`)).Config.Cmd)
	must.Eq(t, []string{"c"}, assemble(t, newInput(t, `command = "c"`)).Config.Cmd)
	must.Eq(t, &ocispec.Platform{OS: "linux", Architecture: "arm64"}, assemble(t, newInput(t, `arch = "arm64"`)).Platform)
}

func TestProcess_Init(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, option   string
		gpu, byDefault bool
		want           bool
	}{
		{name: "absent"},
		{name: "on", option: "init = true", want: true},
		{name: "off", option: "init = false"},
		{name: "default without a GPU", byDefault: true},
		{name: "default with a GPU", gpu: true, byDefault: true, want: true},
		{name: "the task's word", option: "init = false", gpu: true, byDefault: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, tc.option)
			if tc.gpu {
				grant(in)
			}
			in.Plugin.GPU.Defaults.Init = tc.byDefault
			got := assemble(t, in).HostConfig.Init
			must.Eq(t, tc.want, got != nil)
			if got != nil {
				must.True(t, *got)
			}
		})
	}
}

func TestEnvironment_PortMap(t *testing.T) {
	t.Parallel()
	in := newInput(t, "port_map {\n \"my-port.x\" = 8080\n}")
	withTaskPort(in, "my-port.x", 20000)
	in.Task.Env["NOMAD_PORT_my_port_x"] = "20000"
	in.Task.Env["A"] = "b=c"
	env := assemble(t, in).Config.Env
	must.SliceContainsAll(t, []string{
		"A=b=c", "NOMAD_ALLOC_DIR=/alloc", "NOMAD_PORT_my_port_x=8080", "NOMAD_SECRETS_DIR=/secrets",
		"NOMAD_TASK_DIR=/local", "NVIDIA_VISIBLE_DEVICES=void",
	}, env)
	must.True(t, slices.IsSorted(env))
}

func TestLogging(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, options string
		want          container.LogConfig
	}{
		{"the plugin's", ``, container.LogConfig{Type: "json-file", Config: map[string]string{"max-file": "2", "max-size": "2m"}}},
		{"empty block", `logging {}`, container.LogConfig{Type: "json-file", Config: map[string]string{"max-file": "2", "max-size": "2m"}}},
		{"driver", `logging { driver = "local" }`, container.LogConfig{Type: "local"}},
		{"type", `logging { type = "local" }`, container.LogConfig{Type: "local"}},
		{"type beats driver", "logging {\n type = \"local\"\n driver = \"gelf\"\n}", container.LogConfig{Type: "local"}},
		{"type and config", "logging {\n type = \"json-file\"\n config {\n max-size = \"9m\"\n }\n}",
			container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "9m"}}},
		{"config alone", "logging {\n config {\n max-size = \"9m\"\n }\n}", container.LogConfig{Config: map[string]string{"max-size": "9m"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, tc.want, assemble(t, newInput(t, tc.options)).HostConfig.LogConfig)
		})
	}
}

// TestAssemble_LeavesInputAlone: areas copy before they add.
func TestAssemble_LeavesInputAlone(t *testing.T) {
	t.Parallel()
	in := grant(newInput(t, "port_map {\n a = 1\n}\nlabels {\n a = \"b\"\n}\ncap_drop = [\"kill\"]\nargs = [\"x\"]\ncommand = \"y\"\nulimit {\n stack = \"1\"\n}"))
	withTaskPort(in, "a", 20000)
	before, err := json.Marshal(in)
	must.NoError(t, err)
	env := maps.Clone(in.Task.Env)
	r := assemble(t, in)
	r.HostConfig.LogConfig.Config["x"] = "y"
	r.Config.Labels["x"] = "y"
	r.Config.Cmd[0] = "changed"
	after, err := json.Marshal(in)
	must.NoError(t, err)
	must.Eq(t, string(before), string(after))
	must.Eq(t, env, in.Task.Env)
}
