//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// victims of a crash.
const (
	plugin = "plugin" // the driver's process; the agent starts another
	agent  = "agent"  // the driver's process goes on and is found again
	both   = "both"
)

// crash is a moment at which somebody is killed with -9.
type crash struct {
	during   string // names it
	method   string
	path     string // pattern of the request to the engine
	answered bool   // the engine did what it was asked
	victim   string
}

// name is that of its story and its job.
func (c crash) name() string {
	when := "before"
	if c.answered {
		when = "after"
	}
	return fmt.Sprintf("%s-%s-%s", c.during, when, c.victim)
}

// TestCrashes: driver and agent die in the middle of everything that they ask the
// engine for. Afterwards the task runs, once, or is gone, and its GPU is free.
func TestCrashes(t *testing.T) {
	must.NoError(t, harness.EnsurePrograms(t.Context(), t.Logf, cniPlugins))
	s := newGround(t, "k80x4-352")
	proxy, err := harness.StartEngineProxy(s.dir, s.engine)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, proxy.Close()) })
	cfg := s.agentConfig(s.driverRoot())
	cfg.ClientConfig = bridgeClient
	cfg.DriverConfig = fmt.Sprintf("endpoint = %q\ninfra_image = %q\ngc {\n dangling_containers {\n period = \"2s\"\n creation_grace = \"1m\"\n }\n}", proxy.Host(), imagePause)
	s.agent, err = harness.StartAgent(s.ctx, cfg)
	must.NoError(t, err)
	t.Cleanup(s.end)
	t.Cleanup(func() { must.NoError(t, harness.RemoveLink(testBridge)) })
	s.makePauseImage()
	r := s.newRegistry()
	remote := s.push(r, imageCUDA75)
	s.nodeWithGPUs(4)

	for _, c := range []crash{
		{"pull", "POST", `^/images/create$`, true, plugin},
		{"create", "POST", `^/containers/create$`, false, plugin},
		{"create", "POST", `^/containers/create$`, true, plugin},
		{"create", "POST", `^/containers/create$`, true, both},
		{"start", "POST", `^/containers/[^/]+/start$`, false, plugin},
		{"start", "POST", `^/containers/[^/]+/start$`, true, plugin},
		{"start", "POST", `^/containers/[^/]+/start$`, true, agent},
		{"start", "POST", `^/containers/[^/]+/start$`, true, both},
	} {
		t.Run(c.name(), func(t *testing.T) {
			s := s.under(t)
			image := imageCUDA75
			if c.during == "pull" {
				image = remote
			}
			hcl := job{name: c.name(), image: image, script: gpuView + "\nsleep 600", gpus: 4}.hcl()
			s.crash(proxy, c, func() {
				_, err := s.agent.Run(patient(hcl))
				must.NoError(t, err)
			})
			s.runsOnce(c.name())
			must.NoError(t, s.agent.StopJob(s.ctx, c.name()))
			s.nothingOf(c.name())
		})
	}
	for _, c := range []crash{
		{"stop", "POST", `^/containers/[^/]+/stop$`, false, plugin},
		{"stop", "POST", `^/containers/[^/]+/stop$`, true, plugin},
		{"remove", "DELETE", `^/containers/[^/]+$`, false, plugin},
		{"remove", "DELETE", `^/containers/[^/]+$`, true, both},
	} {
		t.Run(c.name(), func(t *testing.T) {
			s := s.under(t)
			_, err := s.agent.Run(patient(job{name: c.name(), image: imageCUDA75, script: gpuView + "\nsleep 600", gpus: 4}.hcl()))
			must.NoError(t, err)
			s.runsOnce(c.name())
			s.crash(proxy, c, func() {
				_, _, err := s.agent.API.Jobs().Deregister(c.name(), false, nil)
				must.NoError(t, err)
			})
			s.nothingOf(c.name())
		})
	}
	for _, c := range []crash{
		{"network-create", "POST", `^/containers/create$`, true, plugin},
		{"network-start", "POST", `^/containers/[^/]+/start$`, true, plugin},
		{"network-start", "POST", `^/containers/[^/]+/start$`, true, both},
	} {
		name := c.name()
		t.Run(name, func(t *testing.T) {
			s := s.under(t)
			hcl := patient(job{name: name, image: imageCUDA75, script: "sleep 600", gpus: 1}.hcl())
			hcl = strings.Replace(hcl, `group "g" {`, "group \"g\" {\n network {\n mode = \"bridge\"\n }", 1)
			s.crash(proxy, c, func() {
				_, err := s.agent.Run(hcl)
				must.NoError(t, err)
			})
			s.runsOnce(name)
			s.hasNetwork(name)
			must.NoError(t, s.agent.StopJob(s.ctx, name))
		})
	}
	t.Run("no network container stays", func(t *testing.T) {
		s := s.under(t)
		// Until its allocation's directory is gone, one may still be wanted.
		must.NoError(t, s.agent.API.System().GarbageCollect())
		must.NoError(t, s.nothingLeft("containers", func() []string { return s.containers(s.ctx) }))
	})
}

// patient lets a job's task be tried again, as jobs usually do.
func patient(hcl string) string {
	hcl = strings.Replace(hcl, "attempts = 0\n      mode     = \"fail\"", "attempts = 20\n      delay = \"1s\"\n      mode     = \"delay\"", 1)
	return strings.Replace(hcl, "attempts  = 0\n      unlimited = false", "unlimited = true\n      delay = \"5s\"\n      delay_function = \"constant\"", 1)
}

// crash begins something, kills the victim at the moment of the request, and
// brings the agent back.
func (s *site) crash(proxy *harness.EngineProxy, c crash, begin func()) {
	cut := &harness.Cut{Method: c.method, Path: regexp.MustCompile(c.path), Answered: c.answered, Do: func() {
		process := s.driverProcess()
		if process <= 0 {
			s.Error("there is no process of the driver")
			return
		}
		if c.victim != plugin {
			s.agent.Stop(syscall.SIGKILL)
		}
		if c.victim != agent {
			_ = syscall.Kill(process, syscall.SIGKILL)
		}
	}}
	proxy.Expect(cut)
	begin()
	select {
	case <-cut.Done():
	case <-time.After(time.Minute):
		s.Fatalf("the engine was not asked for %s %s", c.method, c.path)
	}
	if c.victim != plugin {
		must.NoError(s, s.agent.Start(s.ctx))
	}
}

// ofJob lists all containers, running or not, of a job's allocations.
func (s *site) ofJob(name string) []container.Summary {
	allocs, _, err := s.agent.API.Jobs().Allocations(name, true, nil)
	must.NoError(s, err)
	var list []container.Summary
	for _, stub := range allocs {
		list = append(list, s.containersOf(stub.ID)...)
	}
	return list
}

// runsOnce waits until the job's task runs in its only container, and Nomad, the
// engine and the driver agree about that.
func (s *site) runsOnce(name string) {
	s.whenRunning(name, func(alloc *api.Allocation) error {
		list := slices.DeleteFunc(s.ofJob(name), func(c container.Summary) bool {
			return c.Labels["io.github.gpu-docker.role"] == "pause"
		})
		if len(list) != 1 || list[0].State != container.StateRunning || list[0].Labels[ownerLabel] != alloc.ID {
			return fmt.Errorf("allocation %s runs, with the containers %v", alloc.ID, list)
		}
		code, out, errOut := s.exec(alloc, false, "", "echo", "here")
		if code != 0 || out != "here\n" {
			return fmt.Errorf("the task does not answer: %d %q %q", code, out, errOut)
		}
		return nil
	})
}

// hasNetwork waits until a job's task runs with an address in the group's network.
func (s *site) hasNetwork(name string) {
	s.whenRunning(name, func(alloc *api.Allocation) error {
		_, out, errOut := s.exec(alloc, false, "", "ip", "-4", "-o", "addr", "show", "dev", "eth0")
		if !strings.Contains(out, strings.TrimSuffix(testSubnet, "0/24")) {
			return fmt.Errorf("the task of allocation %s sees %q %q", alloc.ID, out, errOut)
		}
		return nil
	})
}

// whenRunning waits until a job's task runs and passes the check.
func (s *site) whenRunning(name string, check func(*api.Allocation) error) {
	must.NoError(s, harness.Eventually(s.ctx, 90*time.Second, func() error {
		allocs, _, err := s.agent.API.Jobs().Allocations(name, true, nil)
		if err != nil {
			return err
		}
		for _, stub := range allocs {
			state := stub.TaskStates["t"]
			if stub.ClientStatus == api.AllocClientStatusRunning && state != nil && state.State == "running" {
				return check(&api.Allocation{ID: stub.ID, NodeID: stub.NodeID})
			}
		}
		return fmt.Errorf("no allocation of %q runs: %v", name, describe(allocs))
	}))
}

// describe is what allocations tell of themselves.
func describe(allocs []*api.AllocationListStub) []string {
	var texts []string
	for _, stub := range allocs {
		texts = append(texts, fmt.Sprintf("%s %s: %s", stub.ID[:8], stub.ClientStatus, harness.Events(&api.Allocation{TaskStates: stub.TaskStates})))
	}
	return texts
}

// nothingOf waits until a job has no container any more.
func (s *site) nothingOf(name string) {
	must.NoError(s, s.nothingLeft("containers of "+name, func() (left []string) {
		for _, c := range s.ofJob(name) {
			left = append(left, fmt.Sprintf("%s (%s)", c.Names[0], c.Status))
		}
		return left
	}))
}
