//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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
	engine *harness.Engine
	gpus   *simhost.Host
	agent  *harness.Agent
}

// ownerLabel marks our containers.
const ownerLabel = "io.gpu-docker.alloc_id"

// The images of the stories; each is made once a story and removed after it.
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

// newSite starts a simulated GPU host and an agent. When the story ends it
// checks that no container, volume, mount or process is left behind.
func newSite(t *testing.T, profile string, configure func(*harness.AgentConfig)) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	bin := os.Getenv("GPU_DOCKER_BIN")
	must.NotEq(t, "", bin, must.Sprint("GPU_DOCKER_BIN must name the folder with the built programs; run \"make test-e2e\""))

	s := &site{T: t, ctx: ctx}
	var err error
	s.engine, err = harness.EnsureEngine(ctx, t.Logf)
	must.NoError(t, err)
	t.Cleanup(s.engine.Close)
	for _, img := range images {
		must.NoError(t, s.engine.MakeImage(ctx, img))
		t.Cleanup(func() { s.engine.RemoveImages(context.Background(), img.Ref) })
	}
	dir := t.TempDir()
	s.gpus, err = simhost.Up(ctx, simhost.Options{Root: filepath.Join(dir, "gpus"), Profile: profile})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, s.gpus.Down()) })

	cfg := harness.AgentConfig{
		Dir:        dir,
		NomadPath:  filepath.Join(bin, "nomad"),
		PluginDir:  filepath.Join(bin, "plugins"),
		DriverRoot: filepath.Join(dir, "gpus"),
	}
	if configure != nil {
		configure(&cfg)
	}
	s.agent, err = harness.StartAgent(ctx, cfg)
	must.NoError(t, err)
	t.Cleanup(s.end)
	return s
}

// end takes the site down and asserts that nothing is left.
func (s *site) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if s.Failed() {
		s.keepAgentLog()
	}
	must.NoError(s, s.agent.PurgeJobs(ctx))
	must.SliceEmpty(s, s.containers(ctx), must.Sprint("containers left after all jobs ended"))
	s.removeDriverVolumes(ctx)
	must.NoError(s, s.agent.Close(ctx))
	must.SliceEmpty(s, s.driverVolumes(ctx), must.Sprint("driver volumes left"))
	must.SliceEmpty(s, s.pluginProcesses(), must.Sprint("plugin processes left"))
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

// containers are our containers, running or not.
func (s *site) containers(ctx context.Context) []container.Summary {
	list, err := s.engine.Client.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", ownerLabel)),
	})
	must.NoError(s, err)
	return list
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
func (s *site) removeDriverVolumes(ctx context.Context) {
	for _, name := range s.driverVolumes(ctx) {
		must.NoError(s, s.engine.Client.VolumeRemove(ctx, name, false))
	}
}

// pluginProcesses are processes that run our program out of the plugin folder.
func (s *site) pluginProcesses() []string {
	var found []string
	must.NoError(s, harness.Eventually(s.ctx, 20*time.Second, func() error {
		found = nil
		entries, err := filepath.Glob("/proc/[0-9]*/exe")
		if err != nil {
			return err
		}
		for _, exe := range entries {
			target, err := os.Readlink(exe)
			if err == nil && strings.HasPrefix(target, os.Getenv("GPU_DOCKER_BIN")+"/plugins/") {
				found = append(found, exe+" -> "+target)
			}
		}
		if len(found) > 0 {
			return fmt.Errorf("still running: %v", found)
		}
		return nil
	}))
	return found
}

// exec runs a command in a container and returns what it prints.
func (s *site) exec(containerID string, args ...string) (string, error) {
	out, err := exec.CommandContext(s.ctx, "docker", append([]string{"exec", containerID}, args...)...).CombinedOutput()
	return string(out), err
}
