// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"net"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

const (
	// SandboxIDLabel is the network label that tells which pause container has
	// the group's network; Nomad and other drivers use the same (task-driver PN-4).
	SandboxIDLabel = "docker_sandbox_container_id"

	defaultNetworkMode = "default"
	// endpointMACAPIVersion is the first engine API with a MAC address for each
	// endpoint instead of one for the container.
	endpointMACAPIVersion = "1.44"
)

// networking is the network part of a request.
type networking struct {
	mode                       container.NetworkMode
	dns, dnsSearch, dnsOptions []string
	extraHosts                 []string
	ports                      published
	endpoint                   *network.EndpointSettings
	containerMAC               string
}

func (n *networking) apply(r *Request) {
	h := r.HostConfig
	h.NetworkMode = n.mode
	h.DNS, h.DNSSearch, h.DNSOptions = n.dns, n.dnsSearch, n.dnsOptions
	h.ExtraHosts = n.extraHosts
	h.PortBindings, r.Config.ExposedPorts = n.ports.bindings, n.ports.exposed
	r.Config.MacAddress = n.containerMAC //nolint:staticcheck // engines below API 1.44 know no other field
	if n.endpoint != nil {
		r.Networking = &network.NetworkingConfig{
			EndpointsConfig: map[string]*network.EndpointSettings{string(n.mode): n.endpoint},
		}
	}
}

func networkPart(in *Input) (networking, findings) {
	var f findings
	n := networking{mode: networkMode(in, &f)}
	if in.Task.DNS == nil {
		n.dns = dnsServers(in.Options.DNSServers, &f)
		n.dnsSearch = slices.Clone(in.Options.DNSSearchDomains)
		n.dnsOptions = slices.Clone(in.Options.DNSOptions)
	}
	if !joinsGroup(in) {
		n.extraHosts = extraHosts(in.Options.ExtraHosts)
	}
	var more findings
	n.ports, more = publishedPorts(in, n.mode)
	f.merge(more)
	n.endpoint, n.containerMAC = endpoint(in)
	checkConflicts(in, &n, &f)
	return n, f
}

// networkMode is the task's choice, else the group's network, else the engine's
// default (task-driver CC-14).
func networkMode(in *Input, f *findings) container.NetworkMode {
	if mode := in.Options.NetworkMode; mode != "" {
		return container.NetworkMode(joinedMode(in, mode))
	}
	if !joinsGroup(in) {
		return defaultNetworkMode
	}
	id := in.Task.NetworkIsolation.Labels[SandboxIDLabel]
	if id == "" {
		f.fault(fmt.Errorf("the group's network %q was not made by a pause container, so no container can join it; set initiate_network in the plugin's config, or give the group a task with the driver \"docker\"",
			in.Task.NetworkIsolation.Path))
	}
	return container.NetworkMode(containerModePrefix + id)
}

// joinsGroup says whether the task uses the network of its group.
func joinsGroup(in *Input) bool {
	isolation := in.Task.NetworkIsolation
	return in.Options.NetworkMode == "" && isolation != nil && isolation.Mode == drivers.NetIsolationModeGroup
}

// dnsServers drops what is no address.
func dnsServers(servers []string, f *findings) []string {
	var good []string
	for _, s := range servers {
		if net.ParseIP(s) == nil {
			f.warn("dns_servers: %q was left out, because it is no IP address", s)
			continue
		}
		good = append(good, s)
	}
	return good
}

// extraHosts writes the entries as the engine reads them: without brackets around
// an IPv6 address.
func extraHosts(entries []string) []string {
	var all []string
	for _, entry := range entries {
		if host, address, err := config.ParseExtraHost(entry); err == nil {
			entry = host + ":" + address
		}
		all = append(all, entry)
	}
	return all
}

// endpoint holds the addresses in the container's network, nil without any. The
// second value is the MAC address for engines that have one a container.
func endpoint(in *Input) (*network.EndpointSettings, string) {
	o := in.Options
	e := &network.EndpointSettings{Aliases: slices.Clone(o.NetworkAliases)}
	if o.IPv4Address != "" || o.IPv6Address != "" {
		e.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: o.IPv4Address, IPv6Address: o.IPv6Address}
	}
	mac := o.MacAddress
	if !versions.LessThan(in.Engine.APIVersion, endpointMACAPIVersion) {
		e.MacAddress, mac = mac, ""
	}
	if len(e.Aliases) == 0 && e.IPAMConfig == nil && e.MacAddress == "" {
		return nil, mac
	}
	return e, mac
}

// checkConflicts refuses what the engine would refuse, some engines only when the
// container starts (task-driver AN-5).
func checkConflicts(in *Input, n *networking, f *findings) {
	o := in.Options
	if !n.mode.IsUserDefined() {
		if len(o.NetworkAliases) > 0 {
			f.option("network_aliases", "network-scoped alias is supported only for containers in user defined networks, not in %q; set network_mode to one", n.mode)
		}
		for _, a := range []struct{ option, address string }{{"ipv4_address", o.IPv4Address}, {"ipv6_address", o.IPv6Address}} {
			if a.address != "" {
				f.option(a.option, "user specified IP address is supported on user defined networks only, not in %q; set network_mode to one", n.mode)
			}
		}
	}
	if !n.mode.IsContainer() {
		return
	}
	for _, c := range []struct {
		option string
		given  bool
	}{
		{"hostname", o.Hostname != ""},
		{"mac_address", o.MacAddress != ""},
		{"dns_servers", len(n.dns) > 0},
		{"extra_hosts", len(n.extraHosts) > 0},
	} {
		if c.given {
			f.option(c.option, "conflicting options: %s and the network mode %q, in which the other container decides; remove the option", c.option, n.mode)
		}
	}
}
