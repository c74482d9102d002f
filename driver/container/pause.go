// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"github.com/docker/docker/api/types/container"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// Pause builds the create request of the pause container that holds the network
// of an allocation's bridge group (task-driver PN-2). An empty hostname leaves it
// to the engine; an empty node id leaves its label out.
func Pause(p *config.Plugin, allocID, hostname, nodeID string) *Request {
	labels := map[string]string{
		LabelDriver:  DriverName,
		LabelRole:    RolePause,
		LabelAllocID: allocID,
	}
	if nodeID != "" {
		labels[LabelNodeID] = nodeID
	}
	if p.CompatLabels {
		labels[peerLabelAllocID] = allocID
	}
	return &Request{
		Name:   PauseName(p, allocID),
		Config: &container.Config{Image: p.InfraImage, Hostname: hostname, Labels: labels},
		HostConfig: &container.HostConfig{
			// Nomad's CNI plugins give the network namespace its interfaces.
			NetworkMode:   "none",
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped},
		},
	}
}
