// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"testing"

	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// TestEngineRefusals: what only the engine can judge is told with the option that
// it is about, is final unless it may pass, and leaves nothing behind.
func TestEngineRefusals(t *testing.T) {
	s := newSite(t, func(c *config.Plugin) { c.Volumes.Enabled, c.AllowPrivileged = true, true })
	for _, tc := range []struct {
		name   string
		change func(*config.Task)
		want   []string // parts of the reason
	}{
		{"user", nil, []string{"unable to find user nobody2", `the task's "user" must exist`}},
		{"group_add", func(o *config.Task) { o.GroupAdd = []string{"nogroup2"} }, []string{"nogroup2", `"group_add"`}},
		{"cpuset_cpus", func(o *config.Task) { o.CpusetCPUs = "4095" }, []string{"Requested CPUs are not available", `"cpuset_cpus"`}},
		{"storage_opt", func(o *config.Task) { o.StorageOpt = map[string]string{"size": "1g"} }, []string{"storage-opt", `"storage_opt"`}},
		{"sysctl", func(o *config.Task) { o.Sysctl = map[string]string{"kernel.panic": "1"} }, []string{"kernel.panic", `"sysctl"`}},
		{"ulimit", func(o *config.Task) { o.Ulimit = map[string]string{"nonsense": "1"} }, []string{"RLIMIT_NONSENSE", `"ulimit"`}},
		{"log driver", func(o *config.Task) { o.Logging.Type = "nonsense" }, []string{"nonsense", `"logging"`}},
		{"logging option", func(o *config.Task) {
			o.Logging.Type, o.Logging.Config = "json-file", map[string]string{"nonsense": "1"}
		}, []string{"nonsense", `"logging"`}},
		{"network", func(o *config.Task) { o.NetworkMode = "gpu-docker-nowhere" }, []string{"gpu-docker-nowhere", `"network_mode"`}},
		{"joined task", func(o *config.Task) { o.NetworkMode = "task:nobody" }, []string{"nobody_", `"network_mode"`}},
		{"devices", func(o *config.Task) { o.Devices = []config.Device{{HostPath: "/dev/nonsense"}} }, []string{"/dev/nonsense", `"devices"`}},
		{"security_opt", func(o *config.Task) { o.SecurityOpt = []string{"nonsense=1"} }, []string{"nonsense", `"security_opt"`}},
		{"cap_add", func(o *config.Task) { o.CapDrop = []string{"nonsense"} }, []string{"NONSENSE", `"cap_add" and "cap_drop"`}},
		{"volumes", func(o *config.Task) { o.Volumes = []string{"/tmp:/x:nonsense"} }, []string{"nonsense", `"volumes"`}},
		{"mount", func(o *config.Task) {
			o.Mount = []config.Mount{{Type: "bind", Source: "/gpu-docker-nowhere", Target: "/x"}}
		}, []string{"/gpu-docker-nowhere", `"mount"`}},
		{"volume driver", func(o *config.Task) {
			o.Volumes, o.VolumeDriver = []string{"gpu-docker-driver-test:/x"}, "nonsense"
		}, []string{"nonsense", `"volume_driver"`}},
		{"command", func(o *config.Task) { o.Command = "/nonsense" }, []string{"/nonsense", `"command" must be an executable of the image`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := tc.change
			if change == nil {
				change = func(*config.Task) {}
			}
			cfg := s.task("true", change)
			if tc.name == "user" {
				cfg.User = "nobody2"
			}
			_, _, err := s.StartTask(cfg)
			must.Error(t, err)
			t.Log(err)
			for _, part := range tc.want {
				must.StrContains(t, err.Error(), part)
			}
			joins := tc.name == "network" || tc.name == "joined task" // what is joined may come
			must.Eq(t, joins, structs.IsRecoverable(err))
			_, err = s.InspectTask(cfg.ID)
			must.ErrorContains(t, err, drivers.ErrTaskNotFound.Error())
		})
	}
}
