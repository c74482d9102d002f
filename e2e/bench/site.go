// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/hashicorp/nomad/api"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// The drivers that are compared.
const (
	ours = "gpu-docker"
	peer = "docker"
)

// benchImage is a shell and nothing else.
const benchImage = "gpu-docker-bench/plain:1"

// keepImages stops both drivers from removing the image between two tasks.
const keepImages = "gc {\n image = false\n }\n"

// site is an agent with both drivers.
type site struct {
	sizes
	ctx     context.Context
	bin     string // absolute
	dir     string
	engine  *harness.Engine
	gpus    *simhost.Host
	agent   *harness.Agent
	drivers []string // in the order of their turns
	jobs    int      // so far
}

// setUp starts an agent on a host with the GPUs of a simhost profile. It also
// returns what there is after an error, for tearDown.
func setUp(ctx context.Context, bin, collector, profile string, n sizes) (s *site, err error) {
	s = &site{sizes: n, ctx: ctx, drivers: []string{peer, ours}}
	if s.bin, err = filepath.Abs(bin); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "gpu-docker-bench-"); err != nil {
		return s, err
	}
	if s.engine, err = harness.EnsureEngine(ctx, say); err != nil {
		return s, err
	}
	if err := s.engine.MakeImage(ctx, harness.Image{Ref: benchImage}); err != nil {
		return s, err
	}
	root := filepath.Join(s.dir, "gpus")
	if s.gpus, err = simhost.Up(ctx, simhost.Options{Root: root, Profile: profile}); err != nil {
		return s, err
	}
	s.agent, err = harness.StartAgent(ctx, harness.AgentConfig{
		Dir: s.dir, NomadPath: filepath.Join(s.bin, "nomad"), PluginDir: filepath.Join(s.bin, "plugins"),
		DriverRoot: root, Drivers: []string{peer, ours}, FingerprintPeriod: "1m",
		DriverConfig: keepImages + fmt.Sprintf("logs {\n collector = %q\n max_files = 25\n max_file_size = 10\n }", collector),
		AgentConfig:  "plugin \"docker\" {\n config {\n" + keepImages + "}\n}\n",
	})
	return s, err
}

// tearDown ends everything that setUp began.
func (s *site) tearDown() error {
	ctx := context.WithoutCancel(s.ctx)
	var errs []error
	if s.agent != nil {
		errs = append(errs, s.agent.Close(ctx))
	}
	if s.gpus != nil {
		errs = append(errs, s.gpus.Down())
	}
	if s.engine != nil {
		errs = append(errs, s.removeContainers(ctx))
		s.engine.RemoveImages(ctx, benchImage)
		s.engine.Close()
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// removeContainers removes what an agent left that ended before its tasks.
func (s *site) removeContainers(ctx context.Context) error {
	left, err := s.engine.Client.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("ancestor", benchImage)),
	})
	for _, c := range left {
		err = errors.Join(err, s.engine.Client.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}))
	}
	return err
}

// turns calls f so often for each driver, the drivers taking turns.
func (s *site) turns(times int, f func(driver string) error) error {
	for range times {
		for _, driver := range s.drivers {
			if err := f(driver); err != nil {
				return fmt.Errorf("driver %q: %w", driver, err)
			}
		}
	}
	return nil
}

// run submits a job of so many tasks that run a shell script and waits until all
// of them have the status. The end of the job is the caller's.
func (s *site) run(driver, kind string, count int, script, status string) (jobID string, begun time.Time, allocs []*api.Allocation, err error) {
	s.jobs++
	jobID = fmt.Sprintf("bench-%d", s.jobs)
	hcl := strings.NewReplacer("NAME", jobID, "KIND", kind, "COUNT", fmt.Sprint(count), "DRIVER", driver,
		"IMAGE", benchImage, "SCRIPT", script).Replace(jobFile)
	begun = time.Now()
	if _, err = s.agent.Run(hcl); err != nil {
		return jobID, begun, nil, err
	}
	err = harness.Eventually(s.ctx, 4*time.Minute, func() error {
		stubs, _, err := s.agent.API.Jobs().Allocations(jobID, true, nil)
		if err != nil {
			return err
		}
		there := 0
		for _, stub := range stubs {
			switch stub.ClientStatus {
			case status:
				there++
			case api.AllocClientStatusFailed:
				return harness.Final(fmt.Errorf("allocation %s failed: %v", stub.ID, stub.TaskStates["t"]))
			}
		}
		if there < count {
			return fmt.Errorf("%d of %d allocations are %s", there, count, status)
		}
		return nil
	})
	if err != nil {
		return jobID, begun, nil, err
	}
	stubs, _, err := s.agent.API.Jobs().Allocations(jobID, true, nil)
	if err != nil {
		return jobID, begun, nil, err
	}
	for _, stub := range stubs {
		alloc, _, err := s.agent.API.Allocations().Info(stub.ID, nil)
		if err != nil {
			return jobID, begun, nil, err
		}
		allocs = append(allocs, alloc)
	}
	return jobID, begun, allocs, nil
}

// jobFile is the same for both drivers.
const jobFile = `
job "NAME" {
  type = "KIND"
  group "g" {
    count = COUNT
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver       = "DRIVER"
      kill_timeout = "1s"
      config {
        image   = "IMAGE"
        command = "/bin/sh"
        args    = ["-c", <<EOT
SCRIPT
EOT
        ]
        init    = true
      }
      resources {
        cpu    = 20
        memory = 32
      }
      logs {
        max_files     = 25
        max_file_size = 10
      }
    }
  }
}`

// eventTime is when a task's first event of a type was; the zero time without one.
func eventTime(alloc *api.Allocation, kind string) time.Time {
	for _, e := range alloc.TaskStates["t"].Events {
		if e.Type == kind {
			return time.Unix(0, e.Time)
		}
	}
	return time.Time{}
}
