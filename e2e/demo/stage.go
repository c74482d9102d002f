// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// options are the demonstration's flags.
type options struct {
	bin, job, profile string
	keep              bool
}

// defaultProfile is the simulated host for a machine without a GPU.
const defaultProfile = "k80x4-352"

// stage is everything the demonstration runs on.
type stage struct {
	options
	ctx        context.Context
	dir        string
	driverRoot string
	simulated  bool
	engine     *harness.Engine
	agent      *harness.Agent
}

// setUp brings up engine, GPU host and agent, telling each step.
func setUp(ctx context.Context, opts options) (*stage, error) {
	bin, err := filepath.Abs(opts.bin)
	if err != nil {
		return nil, err
	}
	opts.bin = bin
	s := &stage{options: opts, ctx: ctx}
	if s.engine, err = harness.EnsureEngine(ctx, say); err != nil {
		return s, err
	}
	version, err := s.engine.Client.ServerVersion(ctx)
	if err != nil {
		return s, fmt.Errorf("ask the Docker Engine's version: %w", err)
	}
	say("Docker Engine %s, API %s", version.Version, version.APIVersion)
	if s.dir, err = os.MkdirTemp("", "gpu-docker-demo-"); err != nil {
		return s, err
	}
	if err := s.chooseGPUHost(); err != nil {
		return s, err
	}
	for _, img := range demoImages(s.profile) {
		if err := s.engine.MakeImage(ctx, img); err != nil {
			return s, err
		}
	}
	say("starting a Nomad agent (server and client) on loopback")
	s.agent, err = harness.StartAgent(ctx, harness.AgentConfig{
		Name:       "demo",
		Dir:        s.dir,
		NomadPath:  filepath.Join(s.bin, "nomad"),
		PluginDir:  filepath.Join(s.bin, "plugins"),
		DriverRoot: s.driverRoot,
	})
	if err != nil {
		return s, err
	}
	say("the agent answers at %s", s.agent.Address())
	return s, nil
}

// chooseGPUHost takes the machine's own GPUs, or simulates a host with some.
func (s *stage) chooseGPUHost() error {
	_, err := os.Stat("/proc/driver/nvidia/version")
	if err == nil && s.profile == "" {
		s.driverRoot = "/"
		say("using this machine's NVIDIA driver")
		return nil
	}
	if s.profile == "" {
		s.profile = defaultProfile
	}
	s.simulated = true
	s.driverRoot = filepath.Join(s.dir, "gpus")
	say("no NVIDIA driver here or a simulation was asked for: simulating the GPU host %q", s.profile)
	out, err := exec.CommandContext(s.ctx, filepath.Join(s.bin, "simhost"), "up", "--root", s.driverRoot, "--profile", s.profile).CombinedOutput()
	if err != nil {
		return fmt.Errorf("simulate the GPU host %q: %w: %s", s.profile, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// tearDown ends what setUp began, in reverse.
func (s *stage) tearDown() error {
	ctx := context.WithoutCancel(s.ctx)
	var errs []error
	if s.agent != nil {
		errs = append(errs, s.agent.PurgeJobs(ctx), s.removeVolumes(ctx), s.agent.Close(ctx))
	}
	if s.simulated {
		_, err := exec.CommandContext(ctx, filepath.Join(s.bin, "simhost"), "down", "--root", s.driverRoot).CombinedOutput()
		errs = append(errs, err)
	}
	if s.engine != nil {
		for _, img := range demoImages(s.profile) {
			s.engine.RemoveImages(ctx, img.Ref)
		}
		s.engine.Close()
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// removeVolumes removes the driver volumes while their driver still answers.
func (s *stage) removeVolumes(ctx context.Context) error {
	names, err := harness.Docker(ctx, "volume", "ls", "-q", "--filter", "driver=nvidia-docker")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(names) {
		if _, err := harness.Docker(ctx, "volume", "rm", name); err != nil {
			return err
		}
	}
	return nil
}

// tool runs one of the programs beside us against the demonstration's agent.
func (s *stage) nomad(args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.bin, "nomad"), args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+s.agent.Address())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("nomad %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
