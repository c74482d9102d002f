// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

// assemble builds the create request. Its warnings are told once, when the image
// is known.
func (s *starting) assemble() error {
	request, warnings, err := container.Assemble(&container.Input{
		Task: s.taskForContainer(), Options: s.options, Plugin: s.p.config,
		Engine: s.p.engineFacts(s.ctx), Host: s.p.hostFacts(),
		ImageEnv: s.imageEnv, GPU: s.containerGPU(),
	})
	if err != nil {
		return fmt.Errorf("Failed to create container configuration for image %q: %w", s.options.Image, err) //nolint:staticcheck // the built-in driver's text
	}
	s.request = request
	s.labelGPUs()
	if s.imageID != "" {
		for _, w := range warnings {
			s.tell(string(w))
		}
	}
	return nil
}

// labelGPUs adds what checkRunning of another process must know.
func (s *starting) labelGPUs() {
	if len(s.grant.Devices) == 0 {
		return
	}
	s.request.Config.Labels[labelRoot] = s.p.config.GPU.DriverRoot
	if ids := strings.Join(s.grant.IDs, ","); strings.Contains(ids, "::") {
		s.request.Config.Labels[labelShares] = ids
	}
}

// taskForContainer is the task without what the device plugin put into its
// environment: the grant says the same in its own words, and what is left there
// under that name is the job's.
func (s *starting) taskForContainer() *drivers.TaskConfig {
	reserved, given := s.cfg.DeviceEnv[visibleDevices]
	if !given || s.cfg.Env[visibleDevices] != reserved {
		return s.cfg
	}
	task := *s.cfg
	task.Env = maps.Clone(s.cfg.Env)
	delete(task.Env, visibleDevices)
	return &task
}

func (s *starting) writeFiles() error {
	if err := s.request.WriteFiles(); err != nil {
		return recoverable(fmt.Errorf("failed to write the container's files: %w", err))
	}
	return nil
}
