//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// TestBesideTheBuiltInDriver runs the built-in docker driver with a fast reaper
// beside ours. Each reaper has a decoy to find; when both decoys are gone, both
// have had their turn, and each must have left the other's task alone.
func TestBesideTheBuiltInDriver(t *testing.T) {
	const reaper = `gc {
      dangling_containers {
        period         = "5s"
        creation_grace = "1m"
      }
    }`
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) {
		cfg.Drivers = []string{"docker", "gpu-docker"}
		cfg.DriverConfig = reaper
		cfg.AgentConfig = "plugin \"docker\" {\n  config {\n" + reaper + "\n  }\n}\n"
	})
	ours := s.run(job{name: "ours", image: imageCUDA75, script: counting, gpus: 1})
	theirs := s.runHCL("theirs", strings.Replace(job{name: "theirs", image: imagePlain, script: counting}.hcl(),
		`"gpu-docker"`, `"docker"`, 1))
	own := s.inspect(ours.ID)

	s.decoy("gpu-docker-e2e-decoy-theirs", map[string]string{"com.hashicorp.nomad.alloc_id": "11111111-2222-3333-4444-555555555555"})
	labels := map[string]string{}
	for k, v := range own.Config.Labels {
		labels[k] = strings.ReplaceAll(v, ours.ID, "66666666-2222-3333-4444-555555555555")
	}
	const decoy = "t_66666666-2222-3333-4444-555555555555" // as its labels name it
	s.decoy(decoy, labels)
	for _, name := range []string{"gpu-docker-e2e-decoy-theirs", decoy} {
		must.NoError(t, harness.Eventually(s.ctx, 4*time.Minute, func() error {
			if _, err := s.engine.Client.ContainerInspect(s.ctx, name); err == nil {
				return fmt.Errorf("container %q is still there", name)
			}
			return nil
		}))
	}
	for _, alloc := range []*api.Allocation{ours, theirs} {
		fresh, _, err := s.agent.API.Allocations().Info(alloc.ID, nil)
		must.NoError(t, err)
		must.Eq(t, api.AllocClientStatusRunning, fresh.ClientStatus)
		must.Eq(t, uint64(0), fresh.TaskStates["t"].Restarts, must.Sprint(harness.Events(fresh)))
	}
	must.Eq(t, own.ID, s.inspect(ours.ID).ID)
}

// runHCL submits a job file and waits until it runs.
func (s *site) runHCL(name, hcl string) *api.Allocation {
	_, err := s.agent.Run(hcl)
	must.NoError(s, err)
	alloc, err := s.agent.WaitAlloc(s.ctx, name, api.AllocClientStatusRunning)
	must.NoError(s, err)
	return alloc
}

// decoy starts a container that a reaper should take for a left-over.
func (s *site) decoy(name string, labels map[string]string) {
	made, err := s.engine.Client.ContainerCreate(s.ctx, &container.Config{
		Image: imagePlain, Cmd: []string{"sleep", "3600"}, Labels: labels,
	}, nil, nil, nil, name)
	must.NoError(s, err)
	s.Cleanup(func() {
		_, _ = harness.Docker(s.ctx, "rm", "-f", name)
	})
	must.NoError(s, s.engine.Client.ContainerStart(s.ctx, made.ID, container.StartOptions{}))
}
