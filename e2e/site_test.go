//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// site is everything one story runs on.
type site struct {
	*testing.T
	ctx    context.Context
	bin    string // folder of the built programs
	dir    string // temporary
	engine *harness.Engine
	gpus   *simhost.Host
	agent  *harness.Agent
}

// ownerLabel marks our containers.
const ownerLabel = "io.github.gpu-docker.alloc_id"

// volumeTrees is where the driver volumes are, by version.
const volumeTrees = "/var/lib/nvidia-docker/volumes/nvidia_driver/"

// The images of the stories.
const (
	imagePlain   = "gpu-docker-e2e/plain:1"    // says nothing of GPUs
	imageCUDA75  = "gpu-docker-e2e/cuda:7.5"   // as nvidia/cuda:7.5 labels itself
	imageCUDA80  = "gpu-docker-e2e/cuda:8.0"   // needs a newer driver than 352.39
	imageWantAll = "gpu-docker-e2e/want-all:1" // asks for every GPU by its environment
)

var images = []harness.Image{
	{Ref: imagePlain},
	{Ref: imageCUDA75, Labels: map[string]string{"com.nvidia.volumes.needed": "nvidia_driver", "com.nvidia.cuda.version": "7.5"}},
	{Ref: imageCUDA80, Labels: map[string]string{"com.nvidia.volumes.needed": "nvidia_driver", "com.nvidia.cuda.version": "8.0"}},
	{Ref: imageWantAll, Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}},
}

// newGround makes ready what needs no agent: engine, images, simulated GPU host.
func newGround(t *testing.T, profile string) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), siteTime())
	t.Cleanup(cancel)
	bin := os.Getenv("GPU_DOCKER_BIN")
	must.NotEq(t, "", bin, must.Sprint("GPU_DOCKER_BIN must name the folder with the built programs; run \"make test-e2e\""))

	s := &site{T: t, ctx: ctx, bin: bin, dir: t.TempDir()}
	var err error
	s.engine, err = harness.EnsureEngine(ctx, t.Logf)
	must.NoError(t, err)
	t.Cleanup(s.engine.Close)
	must.NoError(t, makeImages(ctx, s.engine))
	s.gpus, err = simhost.Up(ctx, simhost.Options{Root: s.driverRoot(), Profile: profile})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, s.gpus.Down()) })
	return s
}

// driverRoot is where the simulated driver is installed.
func (s *site) driverRoot() string { return filepath.Join(s.dir, "gpus") }

// agentConfig is that of an agent on a driver root.
func (s *site) agentConfig(driverRoot string) harness.AgentConfig {
	return harness.AgentConfig{
		Dir:        s.dir,
		NomadPath:  filepath.Join(s.bin, "nomad"),
		PluginDir:  filepath.Join(s.bin, "plugins"),
		DriverRoot: driverRoot,
	}
}

// newSite starts a simulated GPU host and an agent. When the story ends it
// checks that no container, volume, mount or process is left behind.
func newSite(t *testing.T, profile string, configure func(*harness.AgentConfig)) *site {
	t.Helper()
	s := newGround(t, profile)
	cfg := s.agentConfig(s.driverRoot())
	if configure != nil {
		configure(&cfg)
	}
	var err error
	s.agent, err = harness.StartAgent(s.ctx, cfg)
	must.NoError(t, err)
	t.Cleanup(s.end)
	return s
}

// end takes the site down and asserts that nothing is left. Every step is taken,
// whatever the one before said.
func (s *site) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := errors.Join(
		s.agent.PurgeJobs(ctx),
		s.nothingLeft("containers", func() []string { return s.containers(ctx) }),
		s.removeDriverVolumes(ctx),
		s.nothingLeft("driver volumes", func() []string { return s.driverVolumes(ctx) }),
		s.agent.Close(ctx), // the engine would look for their driver for 15 s, and list none
		removeRebuilt(),
		s.nothingLeft("plugin processes", s.pluginProcesses),
	)
	if err != nil || s.Failed() {
		s.keepAgentLog()
	}
	must.NoError(s, err)
}

// nothingLeft waits until a list is empty: what a task's end sets in motion may
// still be under way when Nomad calls the task dead, and the log holder looks
// once a minute for pipes whose allocation is gone.
func (s *site) nothingLeft(what string, list func() []string) error {
	return harness.Eventually(context.Background(), 90*time.Second, func() error {
		if left := list(); len(left) > 0 {
			return fmt.Errorf("%s left behind: %v", what, left)
		}
		return nil
	})
}

// keepAgentLog copies the agent's log out of the temporary folder.
func (s *site) keepAgentLog() {
	text, err := os.ReadFile(s.agent.LogFile())
	if err != nil {
		s.Logf("no agent log: %v", err)
		return
	}
	keep := filepath.Join(os.TempDir(), strings.ReplaceAll(s.Name(), "/", "_")+"-agent.log")
	if err := os.WriteFile(keep, text, 0o644); err == nil {
		s.Logf("the agent's log is kept in %s", keep)
	}
}

// containers name our containers, running or not.
func (s *site) containers(ctx context.Context) []string {
	list, err := s.engine.Client.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", ownerLabel)),
	})
	must.NoError(s, err)
	var names []string
	for _, c := range list {
		names = append(names, fmt.Sprintf("%s (%s)", c.Names[0], c.Status))
	}
	return names
}

// inspect is Docker's view of the only container of an allocation.
func (s *site) inspect(allocID string) container.InspectResponse {
	list, err := s.engine.Client.ContainerList(s.ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", ownerLabel+"="+allocID)),
	})
	must.NoError(s, err)
	must.Len(s, 1, list)
	detail, err := s.engine.Client.ContainerInspect(s.ctx, list[0].ID)
	must.NoError(s, err)
	return detail
}

func (s *site) driverVolumes(ctx context.Context) []string {
	list, err := s.engine.Client.VolumeList(ctx, volume.ListOptions{})
	must.NoError(s, err)
	var names []string
	for _, v := range list.Volumes {
		if v.Driver == "nvidia-docker" {
			names = append(names, v.Name)
		}
	}
	return names
}

// removeDriverVolumes removes them while their driver still answers.
func (s *site) removeDriverVolumes(ctx context.Context) error {
	var errs []error
	for _, name := range s.driverVolumes(ctx) {
		errs = append(errs, s.engine.Client.VolumeRemove(ctx, name, false))
	}
	return errors.Join(errs...)
}

// removeRebuilt removes the volume of the loaded driver that a fingerprint may have
// built again between the removal of all volumes and the end of the agent.
func removeRebuilt() error {
	rebuilt, err := filepath.Glob(volumeTrees + "*")
	for _, tree := range rebuilt {
		err = errors.Join(err, os.RemoveAll(tree))
	}
	return err
}

// pluginProcesses are processes that run our program out of the plugin folder.
func (s *site) pluginProcesses() []string {
	entries, err := filepath.Glob("/proc/[0-9]*/exe")
	must.NoError(s, err)
	var found []string
	for _, exe := range entries {
		target, err := os.Readlink(exe)
		if err == nil && strings.HasPrefix(target, s.bin+"/plugins/") {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
			found = append(found, fmt.Sprintf("%s: %s", exe, strings.ReplaceAll(string(cmdline), "\x00", " ")))
		}
	}
	return found
}

// siteTime is how long a story may take.
func siteTime() time.Duration {
	if os.Getenv(shortTasksVariable) != "" {
		return 2 * time.Hour // a thousand tasks and more
	}
	return 10 * time.Minute
}
