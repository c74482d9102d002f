// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// TestAssemble_Golden compares the whole create request of each task of the
// example jobs. `make golden` rewrites the files; one that no task needs fails.
func TestAssemble_Golden(t *testing.T) {
	t.Parallel()
	jobs, err := filepath.Glob("../../examples/*.nomad.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, jobs)
	jobs = append(jobs, "../../example.nomad.hcl")
	compared := make(map[string]bool)
	for _, file := range jobs {
		text, err := os.ReadFile(file)
		must.NoError(t, err)
		job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: filepath.Base(file), Body: text})
		must.NoError(t, err)
		job.Canonicalize()
		for _, group := range job.TaskGroups {
			for _, task := range group.Tasks {
				golden := filepath.Join("testdata", *job.Name+"."+task.Name+".golden.json")
				compared[golden] = true
				t.Run(*job.Name+"/"+task.Name, func(t *testing.T) {
					compareGolden(t, golden, goldenInput(t, job, group, task))
				})
			}
		}
	}
	files, err := filepath.Glob("testdata/*.golden.json")
	must.NoError(t, err)
	for _, f := range files {
		must.True(t, compared[f], must.Sprintf("%s belongs to no example", f))
	}
}

func compareGolden(t *testing.T, golden string, in *Input) {
	t.Helper()
	r, warnings, err := Assemble(in)
	must.NoError(t, err)
	got, err := json.MarshalIndent(struct {
		*Request
		Warnings []Warning
	}{r, warnings}, "", "  ")
	must.NoError(t, err)
	got = append(got, '\n')
	if os.Getenv("GOLDEN_UPDATE") != "" {
		must.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	must.NoError(t, err)
	must.Eq(t, string(want), string(got))
}

// goldenInput is what Nomad would send for a task: its first choice of addresses
// and ports, the node's first GPUs.
func goldenInput(t *testing.T, job *api.Job, group *api.TaskGroup, task *api.Task) *Input {
	t.Helper()
	in := newInput(t, "")
	in.Options = decodeOptions(t, task.Config)
	in.Plugin.Volumes.Enabled = true
	in.Task.ID = testAllocID + "/" + task.Name + "/12345678"
	in.Task.Name, in.Task.User = task.Name, task.User
	in.Task.JobName, in.Task.JobID, in.Task.TaskGroupName = *job.Name, *job.ID, *group.Name
	for name, value := range task.Env {
		in.Task.Env[name] = value
	}
	in.Task.Resources = goldenResources(task, group)
	for _, network := range group.Networks {
		if network.Mode == "bridge" {
			in.Task.NetworkIsolation = &drivers.NetworkIsolationSpec{
				Mode:        drivers.NetIsolationModeGroup,
				Path:        "/var/run/docker/netns/0123456789ab",
				Labels:      map[string]string{SandboxIDLabel: strings.Repeat("5a", 32)},
				HostsConfig: &drivers.HostsConfig{Address: "172.26.64.2", Hostname: "web"},
			}
		}
		if network.DNS != nil {
			in.Task.DNS = &drivers.DNSConfig{Servers: network.DNS.Servers, Searches: network.DNS.Searches, Options: network.DNS.Options}
		}
	}
	for _, device := range task.Resources.Devices {
		goldenGrant(in, int(*device.Count))
	}
	return in
}

func goldenResources(task *api.Task, group *api.TaskGroup) *drivers.Resources {
	r := &drivers.Resources{
		NomadResources: &structs.AllocatedTaskResources{Memory: structs.AllocatedMemoryResources{MemoryMB: int64(*task.Resources.MemoryMB)}},
		LinuxResources: &drivers.LinuxResources{CPUShares: int64(*task.Resources.CPU), PercentTicks: float64(*task.Resources.CPU) / 8000},
	}
	if limit := task.Resources.MemoryMaxMB; limit != nil {
		r.NomadResources.Memory.MemoryMaxMB = int64(*limit)
	}
	next := 20000
	var ports structs.AllocatedPorts
	for _, network := range group.Networks {
		for _, p := range network.DynamicPorts {
			ports = append(ports, structs.AllocatedPortMapping{Label: p.Label, Value: next, To: p.To, HostIP: "192.0.2.7"})
			next++
		}
	}
	if ports != nil {
		r.Ports = &ports
	}
	for _, network := range task.Resources.Networks {
		own := &structs.NetworkResource{IP: "192.0.2.7"}
		for _, p := range network.DynamicPorts {
			own.DynamicPorts = append(own.DynamicPorts, structs.Port{Label: p.Label, Value: next})
			next++
		}
		r.NomadResources.Networks = append(r.NomadResources.Networks, own)
	}
	return r
}

func goldenGrant(in *Input, count int) {
	grant(in)
	in.GPU.UUIDs, in.GPU.Nodes, in.Task.Devices = nil, nil, nil
	for i, uuid := range []string{testUUID, otherUUID}[:count] {
		node := "/dev/nvidia" + string(rune('0'+i))
		in.GPU.UUIDs = append(in.GPU.UUIDs, uuid)
		in.GPU.Nodes = append(in.GPU.Nodes, gpuhost.DeviceNode{HostPath: node, ContainerPath: node})
		in.Task.Devices = append(in.Task.Devices, &drivers.DeviceConfig{HostPath: node, TaskPath: node, Permissions: "rw"})
	}
	in.GPU.Nodes = append(in.GPU.Nodes,
		gpuhost.DeviceNode{HostPath: "/dev/nvidiactl", ContainerPath: "/dev/nvidiactl"},
		gpuhost.DeviceNode{HostPath: "/dev/nvidia-uvm", ContainerPath: "/dev/nvidia-uvm"},
	)
}
