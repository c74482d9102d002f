// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// visibleDevices is the variable with which NVIDIA's tools and device plugins
// name GPUs.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES"

// reservedIDsVariable is how our device plugin tells the ids of shares; the
// visible devices are the bare UUIDs, for every driver's sake.
const reservedIDsVariable = "GPU_DOCKER_RESERVED_IDS"

// grant is what a task gets of the GPU host. Without a GPU it is empty.
type grant struct {
	// IDs are the reserved ids in reservation order, with their share suffixes.
	IDs []string
	// Devices are the GPUs and MIG devices behind the ids, each once.
	Devices []grantedDevice
	// Nodes are the device nodes: the GPUs', then the control nodes.
	Nodes []gpuhost.DeviceNode
	// Driver is the NVIDIA driver of the host.
	Driver gpuhost.Driver
}

// grantedDevice is one GPU or MIG device of a grant.
type grantedDevice struct {
	UUID   string // of the GPU or MIG device
	Shared bool   // only a share of it is reserved
	GPU    *gpuhost.GPU
}

// UUIDs are the devices' ids in reservation order.
func (g *grant) UUIDs() []string {
	uuids := make([]string, len(g.Devices))
	for i, d := range g.Devices {
		uuids[i] = d.UUID
	}
	return uuids
}

// reservedIDs reads what the device plugin reserved, in order. Nil when the task
// reserved no NVIDIA GPU.
func reservedIDs(cfg *drivers.TaskConfig) []string {
	list, ours := cfg.DeviceEnv[reservedIDsVariable]
	if !ours {
		list = cfg.DeviceEnv[visibleDevices]
	}
	var ids []string
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); word {
		case "", "void", "none":
		default:
			ids = append(ids, word)
		}
	}
	return ids
}

// splitShare takes a reserved id apart: "GPU-…::2" is share 2 of a GPU.
func splitShare(id string) (uuid, share string) {
	uuid, share, _ = strings.Cut(id, "::")
	return uuid, share
}

// grantGPUs finds the reserved GPUs on the host. Failures are recoverable: the
// host's GPUs come and go.
func (p *parts) grantGPUs(ctx context.Context, cfg *drivers.TaskConfig) (*grant, error) {
	ids := reservedIDs(cfg)
	if len(ids) == 0 {
		return &grant{}, nil
	}
	inv := p.host.Inventory(ctx)
	if inv.Driver.Version == "" {
		return nil, gpuTrouble("%d reserved, but this node has no NVIDIA driver now: %s", len(ids), inv.Reason)
	}
	g := &grant{IDs: ids, Driver: inv.Driver}
	seen := map[string]int{}
	for _, id := range ids {
		uuid, share := splitShare(id)
		if at, twice := seen[uuid]; twice {
			g.Devices[at].Shared = g.Devices[at].Shared && share != ""
			continue
		}
		gpu, nodes, err := p.findDevice(inv, uuid)
		if err != nil {
			return nil, err
		}
		seen[uuid] = len(g.Devices)
		g.Devices = append(g.Devices, grantedDevice{UUID: uuid, Shared: share != "", GPU: gpu})
		g.addNodes(nodes...)
	}
	g.addNodes(p.host.ControlNodes()...)
	return g, nil
}

// findDevice finds a GPU or MIG device and its nodes.
func (p *parts) findDevice(inv *gpuhost.Inventory, uuid string) (*gpuhost.GPU, []gpuhost.DeviceNode, error) {
	for i := range inv.GPUs {
		gpu := &inv.GPUs[i]
		var mig *gpuhost.MIGDevice
		for j := range gpu.MIGDevices {
			if gpu.MIGDevices[j].UUID == uuid {
				mig = &gpu.MIGDevices[j]
			}
		}
		if gpu.UUID != uuid && mig == nil {
			continue
		}
		if gpu.Unhealthy != "" {
			return nil, nil, gpuTrouble("%q is unhealthy: %s", uuid, gpu.Unhealthy)
		}
		nodes, err := p.nodesOf(gpu, mig)
		if err != nil {
			return nil, nil, gpuTrouble("%q: %w", uuid, err)
		}
		return gpu, nodes, nil
	}
	return nil, nil, gpuTrouble("reserved %q is not on this node; it has %s", uuid, knownUUIDs(inv))
}

// nodesOf are the nodes of a GPU or, with those of its two instances, of a MIG
// device: never the GPU's node alone (cases DRV-23).
func (p *parts) nodesOf(gpu *gpuhost.GPU, mig *gpuhost.MIGDevice) ([]gpuhost.DeviceNode, error) {
	node, err := p.host.GPUNode(gpu)
	if err != nil {
		return nil, err
	}
	nodes := []gpuhost.DeviceNode{node}
	if mig != nil {
		caps, err := p.host.MIGNodes(gpu, mig)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, caps...)
	}
	return nodes, nil
}

// addNodes adds nodes that the grant does not have yet.
func (g *grant) addNodes(nodes ...gpuhost.DeviceNode) {
next:
	for _, n := range nodes {
		for _, have := range g.Nodes {
			if have.ContainerPath == n.ContainerPath {
				continue next
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
}

// gpuTrouble is a recoverable ErrGPUUnavailable.
func gpuTrouble(format string, args ...any) error {
	return recoverable(fmt.Errorf("%w: %w", ErrGPUUnavailable, fmt.Errorf(format, args...)))
}

func knownUUIDs(inv *gpuhost.Inventory) string {
	var known []string
	for _, g := range inv.GPUs {
		known = append(known, g.UUID)
		for _, m := range g.MIGDevices {
			known = append(known, m.UUID)
		}
	}
	if len(known) == 0 {
		return "no GPU: " + inv.Reason
	}
	return strings.Join(known, ", ")
}
