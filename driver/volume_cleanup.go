// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"slices"

	engineapi "github.com/docker/docker/api/types/container"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/volume"
)

// leaveVolume tells the reaper and the fingerprint streams that a task with the files
// of an earlier driver is gone: it may have been the last one (cases DRV-21).
func (d *Driver) leaveVolume(p *parts, t *task) {
	if used := t.state.NVIDIADriver; used == "" || used == d.lastNVIDIA().driver {
		return
	}
	select {
	case p.volumeLeft <- struct{}{}:
	default: // the reaper has not taken the last one yet
	}
	d.refresh.Now()
}

// cleanVolumes removes driver volumes that a driver upgrade left behind and that
// no container, running or not, ours or not, refers to any more; one that is mounted
// anywhere stays in any case. With volume_mode "plugin" the engine keeps records of its own, so
// the command "gpu-docker volume prune" does it there.
func (d *Driver) cleanVolumes(ctx context.Context, p *parts) {
	if p.config.GPU.VolumeMode != config.VolumeModeBind || p.config.GPU.Injection != config.InjectionVolume {
		return
	}
	// With one volume at most there is nothing to clean, and no need to ask the
	// engine or the driver.
	all, err := p.volumes.List()
	if err != nil || len(all) < 2 {
		return
	}
	// All containers: one of "gpu-docker run" that is stopped can be started again.
	containers, err := p.engine.List(ctx, true)
	if err != nil {
		d.logger.Debug("old driver volumes are kept: the engine does not list its containers", "error", err)
		return
	}
	used := usedVersions(containers, all)
	removed, err := p.volumes.Prune(ctx, func(version string) bool { return slices.Contains(used, version) })
	for _, v := range removed {
		d.logger.Info("driver volume of an earlier NVIDIA driver removed: no container refers to it", "volume", v.Name)
	}
	if err != nil && ctx.Err() == nil {
		d.logger.Debug("old driver volumes are kept", "error", err)
	}
}

// usedVersions are the versions of the driver that containers started with, by our
// label, or whose volume they mount.
func usedVersions(containers []engineapi.Summary, volumes []volume.Volume) []string {
	var used []string
	for _, c := range containers {
		used = append(used, c.Labels[container.LabelNVIDIADriver])
		for _, v := range volumes {
			if slices.ContainsFunc(c.Mounts, func(m engineapi.MountPoint) bool { return v.MountedAs(m.Name, m.Source) }) {
				used = append(used, v.Version)
			}
		}
	}
	return used
}
