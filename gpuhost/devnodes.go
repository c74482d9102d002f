// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// controlNodes are the nodes that every GPU program may need beside its GPU's,
// as a container sees them.
var controlNodes = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

// ControlNodes are the driver's control nodes that exist now: nvidiactl,
// nvidia-uvm, nvidia-uvm-tools, nvidia-modeset; in that order.
func (h *Host) ControlNodes() []DeviceNode {
	dir := h.root.dev()
	var nodes []DeviceNode
	for _, name := range controlNodes {
		node := DeviceNode{HostPath: filepath.Join(dir, name), ContainerPath: "/dev/" + name}
		if exists(node.HostPath) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// GPUNode is the device node of a GPU; an error names the missing node and its cure.
func (h *Host) GPUNode(g *GPU) (DeviceNode, error) {
	node := DeviceNode{
		HostPath:      filepath.Join(h.root.dev(), "nvidia"+strconv.Itoa(g.Minor)),
		ContainerPath: g.Path(),
	}
	if !exists(node.HostPath) {
		return DeviceNode{}, fmt.Errorf("device node %q of GPU %s is missing; run \"nvidia-modprobe -c %d\" as root", node.HostPath, g.UUID, g.Minor)
	}
	return node, nil
}

// MIGNodes are the two capability nodes of a MIG device, which a container needs
// beside the node of its GPU: those of its GPU instance and compute instance.
func (h *Host) MIGNodes(g *GPU, m *MIGDevice) ([]DeviceNode, error) {
	minors, err := h.root.migMinors()
	if err != nil {
		return nil, fmt.Errorf("capability nodes of %s: %w; is the driver loaded?", m.UUID, err)
	}
	instance := fmt.Sprintf("gpu%d/gi%d", g.Minor, m.GPUInstanceID)
	var nodes []DeviceNode
	for _, capability := range []string{
		instance + "/access",
		fmt.Sprintf("%s/ci%d/access", instance, m.ComputeInstanceID),
	} {
		minor, known := minors[capability]
		if !known {
			return nil, fmt.Errorf("capability %q of %s is not in mig-minors; create the MIG device again", capability, m.UUID)
		}
		name := "nvidia-caps/nvidia-cap" + strconv.Itoa(minor)
		node := DeviceNode{HostPath: filepath.Join(h.root.dev(), name), ContainerPath: "/dev/" + name}
		if !exists(node.HostPath) {
			return nil, fmt.Errorf("device node %q of %s is missing; run \"nvidia-modprobe -f /proc/driver/nvidia/capabilities/%s\" as root", node.HostPath, m.UUID, capability)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// migMinors reads which minor number belongs to which MIG capability.
func (r root) migMinors() (map[string]int, error) {
	text, err := os.ReadFile(filepath.Join(r.system("/proc/driver/nvidia-caps"), "mig-minors"))
	if err != nil {
		return nil, err
	}
	minors := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if minor, err := strconv.Atoi(fields[1]); err == nil {
			minors[fields[0]] = minor
		}
	}
	return minors, nil
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
