//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
	"github.com/gpu-docker/gpu-docker/simhost"
)

const (
	disableRequire = `env { NVIDIA_DISABLE_REQUIRE = "1" }`
	notEnforced    = `started all the same, because requirements = "warn"`
)

// TestSwitchesOfTheCheck: what operator and job may say about the check, and
// which task events that leaves.
func TestSwitchesOfTheCheck(t *testing.T) {
	for _, operator := range []struct {
		name, gpu string
		stories   []override
	}{
		{"the defaults", "", []override{
			{name: "task warns", task: "warn", event: notEnforced},
			{name: "task ignores", task: "ignore", event: `is not checked against this node's driver, because the job sets requirements = "ignore"`},
			{name: "variable", env: disableRequire, event: "is not checked against this node's driver, because NVIDIA_DISABLE_REQUIRE is set"},
		}},
		{"no overrides", "allow_override = false", []override{
			{name: "task warns", task: "warn", refused: `gpu.requirements "warn" is weaker than "enforce", which this node's operator set without allow_override`},
			{name: "variable", env: disableRequire, refused: "NVIDIA_DISABLE_REQUIRE has no effect, because this node's operator set allow_override = false"},
		}},
		{"the operator warns", `requirements = "warn"`, []override{
			{name: "no override", event: notEnforced},
			{name: "task enforces", task: "enforce", refused: "needs CUDA 8.0"},
		}},
	} {
		t.Run(operator.name, func(t *testing.T) {
			s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) { cfg.DriverGPU = operator.gpu })
			for i, o := range operator.stories {
				t.Run(o.name, func(t *testing.T) { o.tell(s.under(t), fmt.Sprintf("job-%d", i)) })
			}
		})
	}
}

// override is a job with an image that the driver does not support.
type override struct {
	name, task, env string
	refused         string // part of the reason; empty: it runs
	event           string // part of what it is told when it runs
}

func (o override) tell(s *site, name string) {
	j := job{name: name, image: imageCUDA80, script: "sleep 600", gpus: 1, more: o.env}
	if o.task != "" {
		j.config = "gpu { requirements = " + strconv.Quote(o.task) + " }"
	}
	if o.refused != "" {
		must.StrContains(s, eventsOf(s, s.failed(j)), o.refused)
		return
	}
	must.StrContains(s, eventsOf(s, s.run(j)), o.event)
}

// anywhere wants a GPU, and rather the wrong node than another.
const anywhere = `
job "NAME" {
  type = "KIND"
  affinity {
    attribute = "${node.unique.name}"
    value     = "WRONG"
    weight    = 100
  }
  CONSTRAINT
  group "g" {
    reschedule {
      delay          = "5s"
      delay_function = "constant"
      attempts       = 1
      interval       = "1h"
      unlimited      = false
    }
    task "t" {
      driver       = "gpu-docker"
      kill_timeout = "2s"
      config {
        image   = "IMAGE"
        command = "sleep"
        args    = ["600"]
        init    = true
      }
      resources {
        cpu    = 20
        memory = 32
        device "nvidia/gpu" { count = 1 }
      }
    }
  }
}`

// wish fills in a job.
func wish(name, kind, image, wrong, constraint string) string {
	return strings.NewReplacer("NAME", name, "KIND", kind, "IMAGE", image, "WRONG", wrong,
		"CONSTRAINT", constraint).Replace(anywhere)
}

// TestTwoDrivers: two clients, an old and a newer driver, and jobs that need one
// of them.
func TestTwoDrivers(t *testing.T) {
	const older, newer = "gpu-docker-test", "gpu-docker-newer"
	s := newSite(t, "k80x4-352", nil)
	s.nodeWithGPUs(4)

	t.Run("no node will do", func(t *testing.T) {
		s := s.under(t)
		_, err := s.agent.Run(wish("nowhere", "batch", imageCUDA80, older, ""))
		must.NoError(t, err)
		must.NoError(t, s.waitDead("nowhere"))
		stubs, _, err := s.agent.API.Jobs().Allocations("nowhere", true, nil)
		must.NoError(t, err)
		must.Len(t, 2, stubs) // the first and its one rescheduling
		for _, stub := range stubs {
			must.Eq(t, api.AllocClientStatusFailed, stub.ClientStatus)
			must.Eq(t, uint64(0), stub.TaskStates["t"].Restarts)
		}
	})
	s.joinNewer(newer)

	for _, tc := range []struct{ name, attribute, value, wrong, right string }{
		{"cuda", "cuda", ">= 8.0", older, newer},
		{"driver", "nvidia_driver", ">= 384.81, < 500", older, newer},
		{"older-driver", "nvidia_driver", "< 353", newer, older},
	} {
		t.Run("a constraint on "+tc.name, func(t *testing.T) {
			s := s.under(t)
			constraint := fmt.Sprintf("constraint {\n attribute = \"${attr.driver.gpu-docker.%s}\"\n operator = \"version\"\n value = %q\n }", tc.attribute, tc.value)
			alloc := s.runHCL(tc.name, wish(tc.name, "service", imageCUDA75, tc.wrong, constraint))
			must.Eq(t, tc.right, alloc.NodeName)
			must.Eq(t, "", alloc.PreviousAllocation)
			must.NoError(t, s.agent.StopJob(s.ctx, tc.name))
		})
	}

	for _, kind := range []string{"service", "batch"} {
		t.Run("no constraint, "+kind, func(t *testing.T) {
			s := s.under(t)
			second := s.runHCL(kind, wish(kind, kind, imageCUDA80, older, ""))
			must.Eq(t, newer, second.NodeName)
			first, _, err := s.agent.API.Allocations().Info(second.PreviousAllocation, nil)
			must.NoError(t, err)
			must.Eq(t, older, first.NodeName)
			must.Eq(t, api.AllocClientStatusFailed, first.ClientStatus)
			state := first.TaskStates["t"]
			must.Eq(t, uint64(0), state.Restarts)
			t.Logf("first: %s", harness.Events(first))
			t.Logf("placed again %s after the refusal", time.Unix(0, second.CreateTime).Sub(state.FinishedAt).Round(100*time.Millisecond))
			must.StrContains(t, harness.Events(first), refusal(imageCUDA80))
			must.StrContains(t, harness.Events(first), "Not Restarting: Error was unrecoverable")
			must.Eq(t, 1, len(second.RescheduleTracker.Events))
			must.Eq(t, 0, s.created(first))
			must.NoError(t, s.agent.StopJob(s.ctx, kind))
		})
	}
}

// waitDead waits until Nomad has given a job up.
func (s *site) waitDead(jobID string) error {
	return harness.Eventually(s.ctx, time.Minute, func() error {
		job, _, err := s.agent.API.Jobs().Info(jobID, nil)
		if err == nil && *job.Status != "dead" {
			err = fmt.Errorf("job %q is %s", jobID, *job.Status)
		}
		return err
	})
}

// joinNewer starts a second client with a newer driver. It serves no API and
// binds its driver volume, because the first client has port and socket.
func (s *site) joinNewer(name string) {
	root := filepath.Join(s.dir, "newer-gpus")
	gpus, err := simhost.Up(s.ctx, simhost.Options{Root: root, Profile: "v100x8-450"})
	must.NoError(s, err)
	s.Cleanup(func() { must.NoError(s, gpus.Down()) })
	cfg := s.agentConfig(root)
	cfg.Name, cfg.JoinServer = name, s.agent.RPCAddress()
	cfg.DriverGPU = fmt.Sprintf("volume_mode = \"bind\"\nvolumes_path = %q\napi_address = \"\"\n", filepath.Join(s.dir, "newer-volumes"))
	second, err := harness.StartAgent(s.ctx, cfg)
	must.NoError(s, err)
	s.Cleanup(func() { must.NoError(s, second.Close(context.Background())) })
	must.NoError(s, harness.Eventually(s.ctx, time.Minute, func() error {
		node, err := second.Node()
		if err == nil && (len(node.NodeResources.Devices) == 0 || node.Attributes["driver.gpu-docker.cuda"] != "11.0") {
			err = fmt.Errorf("node %q tells no GPU, or CUDA %q", name, node.Attributes["driver.gpu-docker.cuda"])
		}
		return err
	}))
}
