//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestSharedGPU: with time-slicing several tasks hold shares of one GPU.
func TestSharedGPU(t *testing.T) {
	s := newSite(t, "h200x8-570", func(cfg *harness.AgentConfig) {
		cfg.DeviceConfig = "sharing {\n strategy = \"time-slicing\"\n replicas = 2\n}\nignored_gpu_ids = [" + ignoreAllButFirst(t) + "]"
	})
	first := s.run(job{name: "first", image: imageCUDA75, script: gpuView, gpus: 1})
	second := s.run(job{name: "second", image: imageCUDA75, script: gpuView, gpus: 1})
	must.NotEq(t, reserved(first), reserved(second))
	a, b := s.view(first), s.view(second)
	must.Eq(t, a.nodes, b.nodes)
	must.Eq(t, a.visible, b.visible)
	must.False(t, strings.Contains(a.visible, "::"))
	_, err := s.agent.Run(job{name: "third", image: imageCUDA75, script: gpuView, gpus: 1}.hcl())
	must.NoError(t, err)
	must.NoError(t, s.waitBlocked("third"))
}

// ignoreAllButFirst lists the UUIDs of every GPU of the host but the first.
func ignoreAllButFirst(t *testing.T) string {
	profile, err := simhost.LoadProfile("h200x8-570", "")
	must.NoError(t, err)
	var quoted []string
	for _, uuid := range profile.UUIDs()[1:] {
		quoted = append(quoted, strconv.Quote(uuid))
	}
	return strings.Join(quoted, ", ")
}

// uuids are those of the simulated GPUs, in NVML order.
func (s *site) uuids() []string {
	profile, err := s.gpus.Profile()
	must.NoError(s, err)
	return profile.UUIDs()
}

// TestMIGDevice: a task gets one MIG device with the parent's node and its two
// capability nodes; the parent itself is not offered.
func TestMIGDevice(t *testing.T) {
	s := newSite(t, "a100-mig-535", nil)
	hcl := strings.Replace(job{name: "mig", image: imageCUDA75, script: gpuView + "\nls /dev/nvidia-caps", gpus: 1}.hcl(),
		`device "nvidia/gpu" {`, `device "nvidia/gpu/NVIDIA A100-PCIE-40GB MIG 1g.5gb" {`, 1)
	alloc := s.runHCL("mig", hcl)
	ids := reserved(alloc)
	must.Len(t, 1, ids)
	must.StrHasPrefix(t, "MIG-", ids[0])
	v := s.view(alloc)
	must.Eq(t, ids[0], v.visible)
	must.Len(t, 1, v.nodes)
	caps := 0
	for _, d := range s.inspect(alloc.ID).HostConfig.Devices {
		if strings.HasPrefix(d.PathInContainer, "/dev/nvidia-caps/") {
			caps++
		}
	}
	must.Eq(t, 2, caps)

	// Two tasks of one group with two slices each (cases DEV-24).
	must.NoError(t, s.agent.StopJob(s.ctx, "mig"))
	hcl = strings.Replace(hcl, "count = 1", "count = 2", 1)
	begin, end := strings.Index(hcl, `task "t"`), strings.LastIndex(hcl, "}\n}")
	pair := hcl[:end] + strings.Replace(hcl[begin:end], `task "t"`, `task "u"`, 1) + hcl[end:]
	alloc = s.runHCL("mig-pair", strings.Replace(pair, `job "mig"`, `job "mig-pair"`, 1))
	held := map[string]bool{}
	for _, task := range alloc.AllocatedResources.Tasks {
		must.Len(t, 1, task.Devices)
		must.Len(t, 2, task.Devices[0].DeviceIDs)
		for _, id := range task.Devices[0].DeviceIDs {
			held[id] = true
		}
	}
	must.MapLen(t, 4, held)
}

// TestBuiltInDriverProfits: our reservation serves Nomad's own docker driver,
// which wants to be told of an engine runtime once a task has GPUs; the engine's
// usual one will do.
func TestBuiltInDriverProfits(t *testing.T) {
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) {
		cfg.Drivers = []string{"docker", "gpu-docker"}
		cfg.AgentConfig = "plugin \"docker\" {\n  config { nvidia_runtime = \"runc\" }\n}\n"
	})
	alloc := s.runHCL("theirs", strings.Replace(
		job{name: "theirs", image: imagePlain, script: gpuView, gpus: 1}.hcl(), `"gpu-docker"`, `"docker"`, 1))
	v := s.view(alloc)
	must.Len(t, 1, v.nodes)
	must.Eq(t, reserved(alloc)[0], v.visible)
}

// TestUnhealthyGPU: a fatal XID under a running task shows on the node at once,
// and the task does what its job says.
func TestUnhealthyGPU(t *testing.T) {
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) {
		// A GPU is trusted again after three quiet periods. Nomad passes a changed
		// node on 5 to 10 s later, and would never tell of a shorter illness.
		cfg.FingerprintPeriod = "10s"
	})
	stay := s.run(job{name: "stay", image: imageCUDA75, script: gpuView, gpus: 1})
	leave := s.run(job{name: "leave", image: imageCUDA75, script: gpuView, gpus: 1, config: `gpu { on_unhealthy = "fail" }`})
	for i, uuid := range s.uuids() {
		if uuid == reserved(stay)[0] || uuid == reserved(leave)[0] {
			must.NoError(t, s.gpus.XID(i, 79))
		}
	}
	must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error { return s.healthyGPUs(2) }))
	_, err := s.agent.WaitAlloc(s.ctx, "leave", api.AllocClientStatusFailed)
	must.NoError(t, err)
	must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
		if events := eventsOf(s, stay); !strings.Contains(events, "79") {
			return fmt.Errorf("no event of the XID in %s", events)
		}
		return nil
	}))
	fresh, _, err := s.agent.API.Allocations().Info(stay.ID, nil)
	must.NoError(t, err)
	must.Eq(t, api.AllocClientStatusRunning, fresh.ClientStatus)
}

// TestRehearsedFault: an XID event that the operator has played shows on the node and
// in the metrics as a real one (cases MET-06).
func TestRehearsedFault(t *testing.T) {
	const host = "k80x4-352"
	profile, err := simhost.LoadProfile(host, "")
	must.NoError(t, err)
	uuid := profile.UUIDs()[2]
	s := newSite(t, host, func(cfg *harness.AgentConfig) {
		inject := fmt.Sprintf("inject_health = [%q]", uuid+":79")
		cfg.DeviceConfig, cfg.DriverGPU = inject, inject
		cfg.FingerprintPeriod = "1m" // ill for three of them
	})
	must.NoError(t, harness.Eventually(s.ctx, time.Minute, func() error { return s.healthyGPUs(3) }))
	want := fmt.Sprintf("gpu_xid_total{uuid=%q,xid=\"79\"} 1\n", uuid)
	must.NoError(t, harness.Eventually(s.ctx, time.Minute, func() error {
		if text := httpGet(t, "/metrics"); !strings.Contains(text, want) {
			return fmt.Errorf("no %q in the metrics", want)
		}
		return nil
	}))
}

// TestRehearsedFaultUnderATask: a task that was running before the rehearsal does
// what its job says.
func TestRehearsedFaultUnderATask(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	alloc := s.run(job{name: "leave", image: imageCUDA75, script: gpuView, gpus: 1, config: `gpu { on_unhealthy = "fail" }`})
	s.agent.Stop(syscall.SIGTERM)
	file := filepath.Join(s.dir, "gpu-docker-test.hcl")
	config, err := os.ReadFile(file)
	must.NoError(t, err)
	rehearsal := strings.Replace(string(config), "    gpu {\n", fmt.Sprintf("    gpu {\n      inject_health = [%q]\n", reserved(alloc)[0]+":79"), 1)
	must.NotEq(t, string(config), rehearsal)
	must.NoError(t, os.WriteFile(file, []byte(rehearsal), 0o600))
	must.NoError(t, s.agent.Start(s.ctx))
	_, err = s.agent.WaitAlloc(s.ctx, "leave", api.AllocClientStatusFailed)
	must.NoError(t, err)
	must.StrContains(t, eventsOf(s, alloc), "Xid 79")
}

// TestGPUByUUID: with group_by = "instance" a constraint places exactly one card.
func TestGPUByUUID(t *testing.T) {
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) { cfg.DeviceConfig = `group_by = "instance"` })
	want := s.uuids()[2]
	hcl := strings.Replace(job{name: "exact", image: imageCUDA75, script: gpuView, gpus: 1}.hcl(), "count = 1",
		fmt.Sprintf("\n count = 1\n constraint {\n attribute = \"${device.attr.uuid}\"\n value = %q\n }\n", want), 1)
	alloc := s.runHCL("exact", hcl)
	must.Eq(t, []string{want}, reserved(alloc))
	must.Eq(t, []string{"/dev/nvidia2"}, s.view(alloc).nodes)

	// An affinity prefers a card while it has room.
	hcl = strings.Replace(job{name: "preferred", image: imageCUDA75, script: gpuView, gpus: 1}.hcl(), "count = 1",
		"\n count = 1\n affinity {\n attribute = \"${device.attr.index}\"\n value = \"3\"\n }\n", 1)
	must.Eq(t, []string{s.uuids()[3]}, reserved(s.runHCL("preferred", hcl)))
	must.SliceNotContains(t, reserved(s.runHCL("another", strings.Replace(hcl, `job "preferred"`, `job "another"`, 1))), s.uuids()[3])
}

// TestGroupByNode: one request is met by cards of two models (cases DEV-24).
func TestGroupByNode(t *testing.T) {
	s := newSite(t, "mixed", func(cfg *harness.AgentConfig) { cfg.DeviceConfig = `group_by = "node"` })
	alloc := s.run(job{name: "any", image: imageCUDA75, script: gpuView, gpus: 3})
	must.Len(t, 3, reserved(alloc))
	must.Len(t, 3, s.view(alloc).nodes)
}
