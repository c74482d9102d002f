// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"
	"github.com/hashicorp/nomad/nomad/structs"
)

// published are the ports that the engine forwards from the host.
type published struct {
	exposed  nat.PortSet
	bindings nat.PortMap
}

// add forwards a port of the host, both protocols.
func (p *published) add(hostIP string, hostPort, containerPort int) {
	if p.exposed == nil {
		p.exposed, p.bindings = make(nat.PortSet), make(nat.PortMap)
	}
	for _, protocol := range []string{"tcp", "udp"} {
		port := nat.Port(strconv.Itoa(containerPort) + "/" + protocol)
		p.exposed[port] = struct{}{}
		p.bindings[port] = append(p.bindings[port], nat.PortBinding{HostIP: hostIP, HostPort: strconv.Itoa(hostPort)})
	}
}

// publishedPorts are those of the option ports, else those of the task's own
// network block (task-driver CC-15). In another container's network there is
// nothing to publish.
func publishedPorts(in *Input, mode container.NetworkMode) (p published, f findings) {
	networks := in.Task.Resources.NomadResources.Networks
	switch {
	case len(in.Options.Ports) > 0:
		p, f = groupPorts(in)
	case len(networks) > 0:
		p = taskPorts(in, networks[0])
	case len(in.Options.PortMap) > 0:
		f = portMapFault(in)
	}
	if mode.IsContainer() {
		p = published{}
	}
	return p, f
}

// groupPorts looks up each label of the option ports.
func groupPorts(in *Input) (p published, f findings) {
	for i, label := range in.Options.Ports {
		port, found := findPort(in.Task.Resources.Ports, label)
		if !found {
			f.option(fmt.Sprintf("ports[%d]", i), "Port %q not found, check network block", label)
			continue
		}
		to := port.To
		if to <= 0 {
			to = port.Value
		}
		p.add(port.HostIP, port.Value, to)
	}
	return p, f
}

// findPort looks for a label; an empty list of ports arrives as nil.
func findPort(ports *structs.AllocatedPorts, label string) (structs.AllocatedPortMapping, bool) {
	if ports == nil {
		return structs.AllocatedPortMapping{}, false
	}
	return ports.Get(label)
}

// taskPorts forwards all ports of a network block in the task, through port_map
// or to the same number.
func taskPorts(in *Input, n *structs.NetworkResource) published {
	var p published
	for _, ports := range [][]structs.Port{n.ReservedPorts, n.DynamicPorts} {
		for _, port := range ports {
			to := port.Value
			if mapped, found := in.Options.PortMap[port.Label]; found {
				to = mapped
			}
			p.add(n.IP, port.Value, to)
		}
	}
	return p
}

// portMapFault tells why there is nothing to map.
func portMapFault(in *Input) (f findings) {
	if in.Task.Resources.Ports != nil && len(*in.Task.Resources.Ports) > 0 {
		f.option("port_map", "'port_map' cannot map group network ports, use 'ports' instead")
	} else {
		f.option("port_map", "Trying to map ports but no network interface is available; add a network block")
	}
	return f
}
