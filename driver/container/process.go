// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/strslice"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// process says what runs in the container.
func process(in *Input) *container.Config {
	o := in.Options
	c := &container.Config{
		Image:      o.Image,
		User:       in.Task.User,
		Hostname:   o.Hostname,
		WorkingDir: o.WorkDir,
		OpenStdin:  o.Interactive,
		Tty:        o.TTY,
		Entrypoint: strslice.StrSlice(slices.Clone(o.Entrypoint)),
		Cmd:        command(o),
	}
	if o.Healthchecks.Disable {
		c.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	return c
}

// command is the command with its arguments; nil leaves the image's own.
func command(o *config.Task) strslice.StrSlice {
	if o.Command == "" {
		return strslice.StrSlice(slices.Clone(o.Args))
	}
	return strslice.StrSlice(append([]string{o.Command}, o.Args...))
}

// initProcess says whether the engine's init is PID 1. The task's word counts
// first, then the operator's for GPU tasks; nil leaves it to the engine, and so
// does false, as in the built-in driver.
func initProcess(in *Input) *bool {
	on := in.GPU != nil && in.Plugin.GPU.Defaults.Init
	if in.Options.Init != nil {
		on = *in.Options.Init
	}
	if !on {
		return nil
	}
	return &on
}

// platform is the platform that the task asks for; nil is the engine's own.
func platform(o *config.Task) *ocispec.Platform {
	if o.OS == "" && o.Arch == "" && o.Variant == "" {
		return nil
	}
	p := &ocispec.Platform{OS: o.OS, Architecture: o.Arch, Variant: o.Variant}
	if p.OS == "" {
		p.OS = "linux"
	}
	return p
}
