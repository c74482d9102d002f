// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/versions"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// VolumeDriverName is the volume driver that serves driver volumes.
const VolumeDriverName = "nvidia-docker"

const (
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	deviceOrder    = "CUDA_DEVICE_ORDER"
	// noDevices keeps an NVIDIA runtime from doing anything at all.
	noDevices = "void"

	// cdiAPIVersion is the first engine API that takes CDI devices.
	cdiAPIVersion = "1.44"
	cdiDriver     = "cdi"
	cdiKind       = "nvidia.com/gpu="
)

// gpuEnvironment lays the GPU rules over an environment: the reservation decides
// which GPUs are visible, and without one none is, whatever job or image say.
func gpuEnvironment(in *Input, env map[string]string) findings {
	var f findings
	asked, given := env[visibleDevices]
	if in.GPU == nil {
		env[visibleDevices] = noDevices
		if given && asked != noDevices {
			f.warn("%s=%q was ignored: the task holds no GPU; reserve one with a device block", visibleDevices, asked)
		}
		return f
	}
	env[visibleDevices] = strings.Join(in.GPU.UUIDs, ",")
	if given && asked != env[visibleDevices] {
		if narrows(asked, in.GPU.UUIDs) {
			env[visibleDevices] = asked
		} else {
			f.warn("%s=%q was ignored: the task holds %s", visibleDevices, asked, env[visibleDevices])
		}
	}
	setUnlessGiven(in, env, deviceOrder, "PCI_BUS_ID")
	for name, value := range in.GPU.Numbers {
		if _, given := env[name]; !given { // an image cannot know
			env[name] = value
		}
	}
	if engineInjects(in) {
		return f
	}
	for _, name := range slices.Sorted(maps.Keys(in.GPU.Env)) {
		setUnlessGiven(in, env, name, in.GPU.Env[name])
	}
	f.merge(searchPaths(in, env))
	return f
}

// narrows says whether a list names some of the reserved GPUs and no other.
func narrows(asked string, reserved []string) bool {
	for uuid := range strings.SplitSeq(asked, ",") {
		if !slices.Contains(reserved, uuid) {
			return false
		}
	}
	return true
}

func setUnlessGiven(in *Input, env map[string]string, name, value string) {
	if _, given := env[name]; given {
		return
	}
	if _, given := imageVariable(in, name); !given {
		env[name] = value
	}
}

// driverVolume is the mount of the driver volume; nil when the task has no GPU or
// the engine brings the driver itself. It needs no volumes.enabled: the operator's
// driver mounts it, not the job.
func driverVolume(in *Input) *mount.Mount {
	if in.GPU == nil || in.GPU.Volume == nil || engineInjects(in) {
		return nil
	}
	m := &mount.Mount{Target: in.Options.GPU.MountPath, ReadOnly: true}
	if in.Plugin.GPU.VolumeMode == config.VolumeModeBind {
		m.Type, m.Source = mount.TypeBind, in.GPU.Volume.Mountpoint
		return m
	}
	m.Type, m.Source = mount.TypeVolume, in.GPU.Volume.Name
	m.VolumeOptions = &mount.VolumeOptions{
		NoCopy:       true, // the image's files never go into the volume
		DriverConfig: &mount.Driver{Name: VolumeDriverName},
	}
	return m
}

// libraryMounts put each library of the driver into the directories that the task
// names. Nothing of the container is run for that, such as ldconfig, which some
// images do not have (cases CMP-09).
func libraryMounts(in *Input) ([]mount.Mount, findings) {
	var f findings
	targets := in.Options.GPU.ExtraLibraryTargets
	if in.GPU == nil || len(targets) == 0 {
		return nil, f
	}
	if engineInjects(in) {
		f.warn("gpu.extra_library_targets was ignored: with gpu.injection = %q the engine brings the libraries", in.Plugin.GPU.Injection)
		return nil, f
	}
	var mounts []mount.Mount
	for _, dir := range targets {
		for _, name := range slices.Sorted(maps.Keys(in.GPU.Libraries)) {
			mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: in.GPU.Libraries[name], Target: path.Join(dir, name), ReadOnly: true})
		}
	}
	return mounts, f
}

// deviceRequests asks the engine for the reserved GPUs with the injection "cdi".
func deviceRequests(in *Input) ([]container.DeviceRequest, findings) {
	var f findings
	if in.GPU == nil || in.Plugin.GPU.Injection != config.InjectionCDI {
		return nil, f
	}
	if versions.LessThan(in.Engine.APIVersion, cdiAPIVersion) {
		f.fault(fmt.Errorf("plugin config: gpu.injection: %q needs engine API %s; this engine speaks %s; use %q",
			config.InjectionCDI, cdiAPIVersion, in.Engine.APIVersion, config.InjectionVolume))
	}
	ids := make([]string, len(in.GPU.UUIDs))
	for i, uuid := range in.GPU.UUIDs {
		ids[i] = cdiKind + uuid
	}
	return []container.DeviceRequest{{Driver: cdiDriver, DeviceIDs: ids}}, f
}
