// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
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
		return nil, gpuTrouble("%d reserved, but this node has no NVIDIA driver now: %w", len(ids), noDriver(inv))
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

// uvmNode is the control node without which CUDA fails, as a container sees it. The
// driver's kernel modules do not make it by themselves: CUDA does when nvidia-modprobe is
// installed, and so does gpuhost's question to CUDA, but in a container it cannot.
const uvmNode = "/dev/nvidia-uvm"

// checkUVM refuses to start a task whose CUDA cannot work.
func (s *starting) checkUVM(g *grant) error {
	if len(g.Devices) == 0 || g.hasNode(uvmNode) || !s.p.computes(s.options.Runtime) {
		return nil
	}
	return gpuTrouble("device node %q is missing, and CUDA does not work without it; run \"nvidia-modprobe -u -c=0\" as root, now and at each start of this machine", uvmNode)
}

// computes says whether tasks get CUDA from us: an NVIDIA runtime and CDI see to their
// nodes themselves, and a volume without the driver's compute files has no libcuda.
func (p *parts) computes(runtime string) bool {
	g := p.config.GPU
	return g.Injection == config.InjectionVolume && !container.IsNVIDIARuntime(p.config, runtime, system.Runtime{}) &&
		(slices.Contains(g.Capabilities, "all") || slices.Contains(g.Capabilities, "compute"))
}

// noDriver says why the driver's version is not known, in the words of whoever knows.
func noDriver(inv *gpuhost.Inventory) error {
	switch d := inv.Driver; {
	case inv.Reason != "":
		return errors.New(inv.Reason)
	case d.VersionErr != nil && d.KernelVersion != "":
		return fmt.Errorf("its kernel module is %s, but the version query failed: %w; see the kernel's log for lines with NVRM", d.KernelVersion, d.VersionErr)
	case d.VersionErr != nil:
		return fmt.Errorf("the version query failed: %w; see the kernel's log for lines with NVRM", d.VersionErr)
	}
	return errors.New("nobody tells its version; run \"gpu-docker doctor\"")
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

// hasNode says whether a node is granted, by its path in the container.
func (g *grant) hasNode(path string) bool {
	return slices.ContainsFunc(g.Nodes, func(n gpuhost.DeviceNode) bool { return n.ContainerPath == path })
}

// addNodes adds nodes that the grant does not have yet.
func (g *grant) addNodes(nodes ...gpuhost.DeviceNode) {
	for _, n := range nodes {
		if !g.hasNode(n.ContainerPath) {
			g.Nodes = append(g.Nodes, n)
		}
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
