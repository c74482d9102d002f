// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"slices"

	"github.com/docker/docker/api/types/container"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

const (
	defaultPermissions = "rwm"
	// gpuPermissions leave out making nodes, which no GPU program needs.
	gpuPermissions = "rw"
)

// devices are the job's, then those that device plugins reserved (of any vendor),
// then the nodes of the task's GPUs that are not among them. A place in the
// container is taken once, by the first.
func devices(in *Input) ([]container.DeviceMapping, findings) {
	var f findings
	var all []container.DeviceMapping
	add := func(host, target, permissions string) {
		if !slices.ContainsFunc(all, func(d container.DeviceMapping) bool { return d.PathInContainer == target }) {
			all = append(all, container.DeviceMapping{PathOnHost: host, PathInContainer: target, CgroupPermissions: permissions})
		}
	}
	for i, d := range in.Options.Devices {
		checkDevice(in, &f, fmt.Sprintf("devices[%d].host_path", i), d.HostPath)
		add(d.HostPath, orElse(d.ContainerPath, d.HostPath), orElse(d.CgroupPermissions, defaultPermissions))
	}
	for _, d := range in.Task.Devices {
		add(d.HostPath, d.TaskPath, orElse(d.Permissions, defaultPermissions))
	}
	if in.GPU != nil && in.Plugin.GPU.Injection == config.InjectionVolume {
		for _, n := range in.GPU.Nodes {
			add(n.HostPath, n.ContainerPath, gpuPermissions)
		}
	}
	return all, f
}

func orElse(value, other string) string {
	if value == "" {
		return other
	}
	return value
}
