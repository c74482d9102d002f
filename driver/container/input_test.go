// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/helper/pluginutils/hclspecutils"
	"github.com/hashicorp/nomad/helper/pluginutils/hclutils"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

const (
	testAllocID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	testUUID    = "GPU-11111111-2222-3333-4444-555555555555"
	otherUUID   = "GPU-99999999-8888-7777-6666-555555555555"
)

// decodeTask takes an HCL text of task options the way of a job file.
func decodeTask(t *testing.T, text string) *config.Task {
	t.Helper()
	return decodeOptions(t, hclutils.HclConfigToInterface(t, "config {\n"+text+"\n}"))
}

func decodeOptions(t *testing.T, options any) *config.Task {
	t.Helper()
	schema, diags := hclspecutils.Convert(config.TaskSpec)
	must.False(t, diags.HasErrors(), must.Sprint(diags))
	value, diags, errs := hclutils.ParseHclInterface(options, schema, nil)
	must.False(t, diags.HasErrors(), must.Sprint(errs))
	tc := &drivers.TaskConfig{}
	must.NoError(t, tc.EncodeDriverConfig(value))
	task, err := config.DecodeTask(tc)
	must.NoError(t, err)
	return task
}

// newInput is a task "web" with the given options on an old engine: no GPU, 1000
// shares and a quarter of the node's processor time, 256 MiB.
func newInput(t *testing.T, options string) *Input {
	t.Helper()
	return &Input{
		Task: &drivers.TaskConfig{
			ID:       testAllocID + "/web/12345678",
			AllocID:  testAllocID,
			Name:     "web",
			JobName:  "shop",
			JobID:    "shop",
			AllocDir: "/var/nomad/alloc/" + testAllocID,
			Env: map[string]string{
				"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets",
			},
			TaskGroupName: "web",
			Namespace:     "default",
			NodeID:        "node-id",
			NodeName:      "node-name",
			Resources: &drivers.Resources{
				NomadResources: &structs.AllocatedTaskResources{
					Memory: structs.AllocatedMemoryResources{MemoryMB: 256},
				},
				LinuxResources: &drivers.LinuxResources{CPUShares: 1000, PercentTicks: 0.25},
			},
		},
		Options: decodeTask(t, "image = \"redis:7\"\n"+options),
		Plugin:  config.DefaultPlugin(),
		Engine:  Engine{APIVersion: "1.41", Runtimes: []string{"runc", "io.containerd.runc.v2"}, DefaultRuntime: "runc"},
		Host:    Host{CPUs: 4, LastCapability: 40, ResolvConf: "testdata/resolv.conf", ProcDevices: "testdata/proc-devices"},
	}
}

// grant gives the input's task one GPU, the nodes as a device plugin reserves them.
func grant(in *Input) *Input {
	in.GPU = &GPU{
		UUIDs: []string{testUUID},
		Nodes: []gpuhost.DeviceNode{
			{HostPath: "/dev/nvidia0", ContainerPath: "/dev/nvidia0"},
			{HostPath: "/dev/nvidiactl", ContainerPath: "/dev/nvidiactl"},
		},
		Volume:        &DriverVolume{Name: "nvidia_driver_352.39", Mountpoint: "/var/lib/nvidia-docker/volumes/nvidia_driver/352.39"},
		DriverVersion: "352.39",
	}
	in.Task.Devices = []*drivers.DeviceConfig{
		{HostPath: "/dev/nvidia0", TaskPath: "/dev/nvidia0", Permissions: "rw"},
	}
	return in
}

// assemble fails the test on an error.
func assemble(t *testing.T, in *Input) *Request {
	t.Helper()
	r, _, err := Assemble(in)
	must.NoError(t, err)
	return r
}

// assembleError wants an error that contains a text.
func assembleError(t *testing.T, in *Input, want string) {
	t.Helper()
	r, _, err := Assemble(in)
	must.ErrorContains(t, err, want)
	must.Nil(t, r)
}

// assembleWarns wants a warning that contains a text.
func assembleWarns(t *testing.T, in *Input, want string) *Request {
	t.Helper()
	r, warnings, err := Assemble(in)
	must.NoError(t, err)
	must.Len(t, 1, warnings)
	must.StrContains(t, string(warnings[0]), want)
	return r
}

// devicePaths are the containers' places of devices.
func devicePaths(h *container.HostConfig) []string {
	var all []string
	for _, d := range h.Devices {
		all = append(all, d.PathInContainer)
	}
	return all
}
