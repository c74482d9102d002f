// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"strings"
)

func (t *Task) validateNetwork(f *faults) {
	for _, a := range []struct{ option, value string }{
		{"ipv4_address", t.IPv4Address}, {"ipv6_address", t.IPv6Address},
	} {
		if a.value == "" {
			continue
		}
		ip := net.ParseIP(a.value)
		if ip == nil || (ip.To4() != nil) != (a.option == "ipv4_address") {
			f.add(a.option, "%q is no such address", a.value)
		}
	}
	if t.MacAddress != "" {
		if _, err := net.ParseMAC(t.MacAddress); err != nil {
			f.add("mac_address", "%q: %v; use for example %q", t.MacAddress, err, "02:42:ac:11:00:02")
		}
	}
	for i, entry := range t.ExtraHosts {
		if _, _, err := ParseExtraHost(entry); err != nil {
			f.add(fmt.Sprintf("extra_hosts[%d]", i), "%v", err)
		}
	}
}

// ParseExtraHost reads "host:ip"; the address may be an IPv6 one, also in brackets,
// or the engine's word "host-gateway".
func ParseExtraHost(entry string) (host, address string, err error) {
	host, address, found := strings.Cut(entry, ":")
	if !found || host == "" || strings.ContainsAny(host, " \t\n\r#") {
		return "", "", fmt.Errorf("invalid hosts entry %q: not <host>:<address> format", entry)
	}
	address = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	if address != HostGateway && net.ParseIP(address) == nil {
		return "", "", fmt.Errorf("invalid hosts entry %q: invalid IP address %q", entry, address)
	}
	return host, address, nil
}

// HostGateway stands for the host's address on the engine's bridge.
const HostGateway = "host-gateway"
