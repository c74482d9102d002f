// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"io/fs"
	"maps"
	"path"

	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/versions"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// subpathAPIVersion is the engine API that knows a volume's subpath.
const subpathAPIVersion = "1.45"

// volumeBinds are the entries of the option volumes. With a volume driver a
// relative source is a volume's name, else it is a path.
func volumeBinds(in *Input) ([]string, findings) {
	var f findings
	driver := in.Options.VolumeDriver
	if driver != "" && !in.Plugin.Volumes.Enabled {
		f.option("volume_driver", "volumes are not enabled; cannot use volume driver %q; let the operator set volumes.enabled", driver)
		return nil, f
	}
	var binds []string
	for i, entry := range in.Options.Volumes {
		option := fmt.Sprintf("volumes[%d]", i)
		v, err := config.ParseVolume(entry)
		if err != nil {
			f.option(option, "%w", err)
			continue
		}
		// Whatever the volume driver, the engine takes an absolute source for a path.
		source := path.Clean(v.Source)
		if driver == "" || path.IsAbs(v.Source) {
			source = checkedSource(in, &f, option, "volumes are not enabled; cannot mount host paths", v.Source)
		}
		checkTarget(in, &f, option, v.Target)
		binds = append(binds, labelledBind(in, &f, option, source, v))
	}
	return binds, f
}

// checkedSource is the engine's path for a job's host path. The path must lie in
// the allocation, unless the operator allows volumes, and must not be a way to a
// GPU. After a fault the result means nothing.
func checkedSource(in *Input, f *findings, option, disabled, name string) string {
	h, err := resolveHostPath(in.Task, name)
	if err != nil {
		f.option(option, "%w", err)
		return name
	}
	if !h.inAlloc && !in.Plugin.Volumes.Enabled {
		where := ""
		if h.real != h.source {
			where = fmt.Sprintf(", which leads to %q", h.real)
		}
		f.option(option, "%s: %q%s; use a path below the task's directory, or let the operator set volumes.enabled", disabled, name, where)
	}
	checkGPUPath(in, f, option, h)
	return h.source
}

// taskMounts are the entries of mount and mounts.
func taskMounts(in *Input) ([]mount.Mount, findings) {
	var f findings
	var all []mount.Mount
	for i, m := range in.Options.AllMounts() {
		option := fmt.Sprintf("mount[%d]", i)
		if n := len(in.Options.Mount); i >= n {
			option = fmt.Sprintf("mounts[%d]", i-n)
		}
		part := mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		switch m.Type {
		case config.MountBind:
			part.Source = checkedSource(in, &f, option, "volumes are not enabled; cannot mount host path", m.Source)
			part.BindOptions = bindOptions(m.BindOptions)
		case config.MountTmpfs:
			part.TmpfsOptions = tmpfsOptions(m.TmpfsOptions)
		case config.MountVolume:
			checkVolume(in, &f, option, m)
			part.VolumeOptions = volumeOptions(m.VolumeOptions)
		}
		checkTarget(in, &f, option, m.Target)
		warnUnused(&f, option, m)
		all = append(all, part)
	}
	return all, f
}

// checkVolume says whether a task may have a volume.
func checkVolume(in *Input, f *findings, option string, m config.Mount) {
	if !in.Plugin.Volumes.Enabled {
		f.option(option, "volumes are not enabled; cannot mount volume: %q; let the operator set volumes.enabled", m.Source)
	}
	if m.VolumeOptions.Subpath != "" && versions.LessThan(in.Engine.APIVersion, subpathAPIVersion) {
		f.option(option+".volume_options.subpath", "%q needs engine API %s; this engine speaks %s", m.VolumeOptions.Subpath, subpathAPIVersion, in.Engine.APIVersion)
	}
	// The engine's local driver binds the path in its option "device".
	if device := m.VolumeOptions.DriverConfig.Options["device"]; path.IsAbs(device) {
		h, err := resolveHostPath(in.Task, device)
		if err != nil {
			f.option(option+".volume_options.driver_config.options", "%w", err)
			return
		}
		checkGPUPath(in, f, option+".volume_options.driver_config.options", h)
	}
}

func bindOptions(o config.BindOptions) *mount.BindOptions {
	if o.Propagation == "" {
		return nil
	}
	return &mount.BindOptions{Propagation: mount.Propagation(o.Propagation)}
}

func tmpfsOptions(o config.TmpfsOptions) *mount.TmpfsOptions {
	if o == (config.TmpfsOptions{}) {
		return nil
	}
	return &mount.TmpfsOptions{SizeBytes: o.SizeBytes, Mode: fs.FileMode(o.Mode)}
}

func volumeOptions(o config.VolumeOptions) *mount.VolumeOptions {
	v := &mount.VolumeOptions{NoCopy: o.NoCopy, Labels: maps.Clone(o.Labels), Subpath: o.Subpath}
	if o.DriverConfig.Name != "" || len(o.DriverConfig.Options) > 0 {
		v.DriverConfig = &mount.Driver{Name: o.DriverConfig.Name, Options: maps.Clone(o.DriverConfig.Options)}
	}
	if !v.NoCopy && len(v.Labels) == 0 && v.Subpath == "" && v.DriverConfig == nil {
		return nil
	}
	return v
}

// warnUnused names option blocks of another mount type: engines since API 1.42
// refuse them, so they are not sent.
func warnUnused(f *findings, option string, m config.Mount) {
	for _, o := range []struct {
		kind, block string
		given       bool
	}{
		{config.MountBind, "bind_options", bindOptions(m.BindOptions) != nil},
		{config.MountTmpfs, "tmpfs_options", tmpfsOptions(m.TmpfsOptions) != nil},
		{config.MountVolume, "volume_options", volumeOptions(m.VolumeOptions) != nil},
	} {
		if o.given && o.kind != m.Type {
			f.warn("%s: %s was ignored, because the mount's type is %q", option, o.block, m.Type)
		}
	}
}
