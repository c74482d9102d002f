// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"path/filepath"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/volume"
)

// reserveGPUs finds the reserved GPUs and makes sure that no other task has them.
func (s *starting) reserveGPUs() error {
	granted, err := s.p.grantGPUs(s.ctx, s.cfg)
	if err != nil {
		return err
	}
	if err := checkCount(s.options.GPU.Count, granted); err != nil {
		return err
	}
	if err := s.checkUVM(granted); err != nil {
		return err
	}
	s.grant = granted
	if err := s.d.checkRunning(s.ctx, s.p, s.cfg, granted.Devices); err != nil {
		return err
	}
	if err := s.d.gpus.Claim(s.cfg, granted.Devices); err != nil {
		return err
	}
	s.undo(func() { s.d.gpus.Release(s.cfg.ID) })
	return nil
}

// prepareNodes makes the device nodes ready and tells of other users of the GPUs.
func (s *starting) prepareNodes() error {
	s.p.linkNodes(s.grant.Nodes)
	s.warnForeign()
	return nil
}

// containerGPU is the grant as the create request needs it; nil without a GPU.
func (s *starting) containerGPU() *container.GPU {
	if len(s.grant.Devices) == 0 {
		return nil
	}
	gpu := &container.GPU{
		UUIDs: s.grant.UUIDs(), Nodes: s.grant.Nodes,
		DriverVersion:      s.grant.Driver.Version,
		UseCompatLibraries: s.decision != nil && s.decision.UseCompatLibraries,
		Numbers:            s.grant.numbers(),
		Env:                s.loaderEnv,
		Libraries:          s.libraries,
	}
	if s.p.config.GPU.Injection == config.InjectionVolume {
		gpu.Volume = s.p.volumeOf(s.grant.Driver.Version)
	}
	return gpu
}

// volumeOf names a driver's volume without making it.
func (p *parts) volumeOf(version string) *container.DriverVolume {
	return &container.DriverVolume{
		Name:       volume.Name(version),
		Mountpoint: filepath.Join(p.config.GPU.VolumesPath, "nvidia_driver", version),
	}
}

// prepareVolume makes sure that the volume of the loaded driver is complete and
// that the engine will get an answer about it.
func (s *starting) prepareVolume() error {
	if len(s.grant.Devices) == 0 || s.p.config.GPU.Injection != config.InjectionVolume {
		return nil
	}
	built, err := s.p.volumes.Ensure(s.ctx)
	if err != nil {
		return recoverable(fmt.Errorf("driver volume for NVIDIA driver %s: %w", s.grant.Driver.Version, err))
	}
	if built.Version != s.grant.Driver.Version {
		return recoverable(fmt.Errorf("the NVIDIA driver changed from %s to %s during the start; the task will be started again", s.grant.Driver.Version, built.Version))
	}
	s.loaderEnv = built.LoaderEnv(s.options.GPU.MountPath)
	if len(s.options.GPU.ExtraLibraryTargets) > 0 {
		if s.libraries, err = built.Libraries(); err != nil {
			return recoverable(err)
		}
	}
	if built.Built {
		s.d.refresh.Now()
		s.tell(fmt.Sprintf("Driver volume %s was built for NVIDIA driver %s", built.Name, built.Version))
	}
	if s.p.config.GPU.VolumeMode != config.VolumeModePlugin {
		return nil
	}
	return recoverable(volume.Ping(s.ctx, s.p.config.GPU.VolumeSocketDir))
}
