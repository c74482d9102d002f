// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/gpu-docker/gpu-docker/volume"
)

const usersName = "users of other drivers"

// users looks for running containers with the files of another driver than the
// loaded one: they keep it from being unloaded, and fail at their next call into
// it (cases DRV-21).
func (e *Examination) users(ctx context.Context) []Finding {
	loaded := e.Host.Inventory(ctx).Driver.Version
	if e.Engine == nil || loaded == "" {
		return nil
	}
	volumes, err := e.Volumes.List()
	if err != nil {
		return nil // told already
	}
	running, err := e.Engine.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return []Finding{broken(usersName, "see the engine's log", "it does not list its containers: %v", err)}
	}
	var found []string
	for _, c := range running {
		if version := driverOf(&c, volumes); version != "" && version != loaded {
			found = append(found, fmt.Sprintf("%s (%s)", strings.TrimPrefix(strings.Join(c.Names, ","), "/"), version))
		}
	}
	if len(found) == 0 {
		return []Finding{ok(usersName, "none")}
	}
	slices.Sort(found)
	return []Finding{warning(usersName, "restart them, to get the files of driver "+loaded, "%s", strings.Join(found, ", "))}
}

// driverOf is the version of the NVIDIA driver that a container started with, by its
// label or the driver volume that it has; empty for none.
func driverOf(c *container.Summary, volumes []volume.Volume) string {
	if version := c.Labels[volume.ContainerLabel]; version != "" {
		return version
	}
	for _, v := range volumes {
		if slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return v.MountedAs(m.Name, m.Source) }) {
			return v.Version
		}
	}
	return ""
}
