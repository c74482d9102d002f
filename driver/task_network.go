// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	engineapi "github.com/docker/docker/api/types/container"
)

// sandboxLabel is where the agent keeps the id of a group's pause container.
const sandboxLabel = "docker_sandbox_container_id"

// checkNetwork refuses to start a task into a group network that is dead: after
// an engine restart a pause container is gone or has a new, bare namespace
// (task-driver PN-8).
func (s *starting) checkNetwork() error {
	spec := s.cfg.NetworkIsolation
	if spec == nil || spec.Labels[sandboxLabel] == "" || s.options.NetworkMode != "" {
		return nil
	}
	id := spec.Labels[sandboxLabel]
	found, err := s.p.engine.Inspect(s.ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		return recoverable(fmt.Errorf("the group's network container %q is gone; the allocation must be rescheduled to get a new network", id))
	case err != nil:
		return recoverable(fmt.Errorf("failed to inspect the group's network container %q: %w", id, err))
	case found.State == nil || !found.State.Running:
		return recoverable(fmt.Errorf("the group's network container %q does not run; the allocation must be rescheduled to get a new network", id))
	}
	if found.NetworkSettings != nil && spec.Path != "" && found.NetworkSettings.SandboxKey != "" && found.NetworkSettings.SandboxKey != spec.Path {
		return recoverable(fmt.Errorf("the group's network container %q was restarted and has lost its network (%q, was %q); the allocation must be rescheduled", id, found.NetworkSettings.SandboxKey, spec.Path))
	}
	s.p.state.KeepPause(id, s.cfg.AllocDir)
	s.p.claimPause(id)
	return nil
}

// address is where a container can be reached.
type address struct {
	ip      string
	auto    bool // services should advertise ip
	network string
	others  []string // further networks that have an address
}

// findAddress takes the first network, by name, that has an address. A container
// in the host's or another container's network has none of its own.
func findAddress(settings *engineapi.NetworkSettings, ipv6 bool) (address, error) {
	var a address
	if settings == nil {
		return a, nil
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Networks)) {
		n := settings.Networks[name]
		ip := n.IPAddress
		if ipv6 || ip == "" {
			ip = n.GlobalIPv6Address
		}
		switch {
		case ip == "" && ipv6 && n.IPAddress != "":
			return a, fmt.Errorf("advertise_ipv6_address: network %q gives the container no global IPv6 address; enable IPv6 for the network or remove the option", name)
		case ip == "":
		case a.ip != "":
			a.others = append(a.others, name)
		default:
			a = address{ip: ip, network: name, auto: ipv6 || !isDefaultNetwork(name)}
		}
	}
	return a, nil
}

// isDefaultNetwork: tasks there are reached through published ports.
func isDefaultNetwork(name string) bool {
	return name == "bridge" || strings.EqualFold(name, "nat")
}
