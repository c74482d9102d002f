// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// withTaskPort gives the task a network block of its own with one dynamic port.
func withTaskPort(in *Input, label string, value int) *Input {
	in.Task.Resources.NomadResources.Networks = structs.Networks{{
		IP:            "192.0.2.7",
		ReservedPorts: []structs.Port{{Label: "fixed", Value: 443}},
		DynamicPorts:  []structs.Port{{Label: label, Value: value}},
	}}
	return in
}

// withGroup puts the task into a bridge group.
func withGroup(in *Input) *Input {
	in.Task.NetworkIsolation = &drivers.NetworkIsolationSpec{
		Mode:        drivers.NetIsolationModeGroup,
		Labels:      map[string]string{SandboxIDLabel: "pause-id"},
		HostsConfig: &drivers.HostsConfig{Address: "172.26.64.2", Hostname: "web"},
	}
	return in
}

func withGroupPorts(in *Input, ports ...structs.AllocatedPortMapping) *Input {
	list := structs.AllocatedPorts(ports)
	in.Task.Resources.Ports = &list
	return in
}

func binding(port string) []nat.PortBinding {
	return []nat.PortBinding{{HostIP: "192.0.2.7", HostPort: port}}
}

func TestNetwork_Mode(t *testing.T) {
	t.Parallel()
	must.Eq(t, "default", string(assemble(t, newInput(t, "")).HostConfig.NetworkMode))
	must.Eq(t, "host", string(assemble(t, newInput(t, `network_mode = "host"`)).HostConfig.NetworkMode))
	must.Eq(t, "container:pause-id", string(assemble(t, withGroup(newInput(t, ""))).HostConfig.NetworkMode))
	must.Eq(t, "mine", string(assemble(t, withGroup(newInput(t, `network_mode = "mine"`))).HostConfig.NetworkMode))
	must.Eq(t, "container:db_"+testAllocID, string(assemble(t, newInput(t, `network_mode = "task:db"`)).HostConfig.NetworkMode))

	in := newInput(t, "")
	in.Task.NetworkIsolation = &drivers.NetworkIsolationSpec{Mode: drivers.NetIsolationModeGroup, Path: "/var/run/netns/x"}
	assembleError(t, in, `the group's network "/var/run/netns/x" was not made by a pause container`)
}

func TestNetwork_GroupPorts(t *testing.T) {
	t.Parallel()
	in := withGroupPorts(newInput(t, `ports = ["http", "same"]`),
		structs.AllocatedPortMapping{Label: "http", Value: 20000, To: 8080, HostIP: "192.0.2.7"},
		structs.AllocatedPortMapping{Label: "same", Value: 20001, HostIP: "192.0.2.7"},
		structs.AllocatedPortMapping{Label: "unused", Value: 20002, HostIP: "192.0.2.7"})
	r := assemble(t, in)
	must.Eq(t, nat.PortMap{
		"8080/tcp": binding("20000"), "8080/udp": binding("20000"),
		"20001/tcp": binding("20001"), "20001/udp": binding("20001"),
	}, r.HostConfig.PortBindings)
	must.Eq(t, nat.PortSet{"8080/tcp": {}, "8080/udp": {}, "20001/tcp": {}, "20001/udp": {}}, r.Config.ExposedPorts)

	r = assemble(t, withGroup(in))
	must.Nil(t, r.HostConfig.PortBindings)
	must.Nil(t, r.Config.ExposedPorts)
}

// TestNetwork_ManyToOne: several host ports may lead to one port of the container.
func TestNetwork_ManyToOne(t *testing.T) {
	t.Parallel()
	in := withGroupPorts(newInput(t, `ports = ["a", "b"]`),
		structs.AllocatedPortMapping{Label: "a", Value: 1, To: 80, HostIP: "192.0.2.7"},
		structs.AllocatedPortMapping{Label: "b", Value: 2, To: 80, HostIP: "198.51.100.7"})
	must.Eq(t, []nat.PortBinding{{HostIP: "192.0.2.7", HostPort: "1"}, {HostIP: "198.51.100.7", HostPort: "2"}},
		assemble(t, in).HostConfig.PortBindings["80/udp"])
}

func TestNetwork_TaskPorts(t *testing.T) {
	t.Parallel()
	r := assemble(t, withTaskPort(newInput(t, ""), "http", 20000))
	must.Eq(t, nat.PortMap{
		"443/tcp": binding("443"), "443/udp": binding("443"), "20000/tcp": binding("20000"), "20000/udp": binding("20000"),
	}, r.HostConfig.PortBindings)
	r = assemble(t, withTaskPort(newInput(t, "port_map {\n http = 8080\n}"), "http", 20000))
	must.Eq(t, nat.PortMap{
		"443/tcp": binding("443"), "443/udp": binding("443"), "8080/tcp": binding("20000"), "8080/udp": binding("20000"),
	}, r.HostConfig.PortBindings)
	r = assemble(t, withTaskPort(newInput(t, `network_mode = "task:db"`), "http", 20000))
	must.Nil(t, r.HostConfig.PortBindings)
}

func TestNetwork_PortFaults(t *testing.T) {
	t.Parallel()
	assembleError(t, newInput(t, `ports = ["http"]`), `ports[0]: Port "http" not found, check network block`)
	assembleError(t, withGroupPorts(newInput(t, `ports = ["http"]`)), `ports[0]: Port "http" not found, check network block`)
	assembleError(t, newInput(t, "port_map {\n http = 80\n}"), `port_map: Trying to map ports but no network interface is available`)
	in := withGroupPorts(newInput(t, "port_map {\n http = 80\n}"), structs.AllocatedPortMapping{Label: "http", Value: 1})
	assembleError(t, in, `'port_map' cannot map group network ports, use 'ports' instead`)
}

func TestNetwork_Endpoint(t *testing.T) {
	t.Parallel()
	options := "network_mode = \"mine\"\nnetwork_aliases = [\"a\"]\nipv4_address = \"192.0.2.1\"\nipv6_address = \"2001:db8::1\"\nmac_address = \"02:68:b3:29:da:98\""
	want := &network.EndpointSettings{
		Aliases:    []string{"a"},
		IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "192.0.2.1", IPv6Address: "2001:db8::1"},
	}
	r := assemble(t, newInput(t, options))
	must.Eq(t, map[string]*network.EndpointSettings{"mine": want}, r.Networking.EndpointsConfig)
	must.Eq(t, "02:68:b3:29:da:98", containerMAC(r))

	in := newInput(t, options)
	in.Engine.APIVersion = "1.44"
	want.MacAddress = "02:68:b3:29:da:98"
	r = assemble(t, in)
	must.Eq(t, map[string]*network.EndpointSettings{"mine": want}, r.Networking.EndpointsConfig)
	must.Eq(t, "", containerMAC(r))
}

func containerMAC(r *Request) string {
	return r.Config.MacAddress //nolint:staticcheck // engines below API 1.44 know no other field
}

func TestNetwork_Conflicts(t *testing.T) {
	t.Parallel()
	const only = "supported only for containers in user defined networks"
	for _, tc := range []struct{ name, options, want string }{
		{"alias in default", `network_aliases = ["a"]`, `network_aliases: network-scoped alias is ` + only},
		{"alias in bridge", "network_mode = \"bridge\"\nnetwork_aliases = [\"a\"]", `network_aliases: network-scoped alias is ` + only},
		{"address in host", "network_mode = \"host\"\nipv4_address = \"192.0.2.1\"", `ipv4_address: user specified IP address is supported on user defined networks only`},
		{"IPv6 address", `ipv6_address = "::1"`, `ipv6_address: user specified IP address is supported on user defined networks only`},
		{"hostname", "network_mode = \"task:db\"\nhostname = \"h\"", `hostname: conflicting options: hostname and the network mode`},
		{"mac", "network_mode = \"task:db\"\nmac_address = \"02:68:b3:29:da:98\"", `mac_address: conflicting options`},
		{"dns", "network_mode = \"container:x\"\ndns_servers = [\"192.0.2.1\"]", `dns_servers: conflicting options`},
		{"hosts", "network_mode = \"container:x\"\nextra_hosts = [\"a:192.0.2.1\"]", `extra_hosts: conflicting options`},
	} {
		t.Run(tc.name, func(t *testing.T) { assembleError(t, newInput(t, tc.options), tc.want) })
	}
}

func TestNetwork_DNS(t *testing.T) {
	t.Parallel()
	options := "dns_servers = [\"192.0.2.1\", \"2001:db8::1\"]\ndns_search_domains = [\"example.org\"]\ndns_options = [\"ndots:1\"]"
	in := newInput(t, options)
	h := assemble(t, in).HostConfig
	must.Eq(t, []string{"192.0.2.1", "2001:db8::1"}, h.DNS)
	must.Eq(t, []string{"example.org"}, h.DNSSearch)
	must.Eq(t, []string{"ndots:1"}, h.DNSOptions)

	r := assembleWarns(t, newInput(t, `dns_servers = ["x", "192.0.2.1"]`), `dns_servers: "x" was left out, because it is no IP address`)
	must.Eq(t, []string{"192.0.2.1"}, r.HostConfig.DNS)

	in.Task.DNS = &drivers.DNSConfig{Servers: []string{"192.0.2.9"}}
	r = assemble(t, in)
	must.Nil(t, r.HostConfig.DNS)
	must.Nil(t, r.HostConfig.DNSSearch)
	must.Nil(t, r.HostConfig.DNSOptions)
	must.Eq(t, []File{{Dir: in.Task.AllocDir, Name: "web/resolv.conf", Content: "nameserver 192.0.2.9\nsearch example.org\noptions ndots:2\n"}}, r.Files)
	m := r.HostConfig.Mounts[0]
	must.Eq(t, "/etc/resolv.conf", m.Target)
	must.Eq(t, in.Task.AllocDir+"/web/resolv.conf", m.Source)
	must.True(t, m.ReadOnly)
}

func TestNetwork_DNSOverlay(t *testing.T) {
	t.Parallel()
	system := resolver{servers: []string{"s"}, searches: []string{"d"}, options: []string{"o"}}
	for _, tc := range []struct {
		name string
		dns  drivers.DNSConfig
		want string
	}{
		{"nothing", drivers.DNSConfig{}, "nameserver s\nsearch d\noptions o\n"},
		{"searches", drivers.DNSConfig{Searches: []string{"a", "b"}}, "nameserver s\nsearch a b\noptions o\n"},
		{"options", drivers.DNSConfig{Options: []string{"x", "y"}}, "nameserver s\nsearch d\noptions x y\n"},
		{"all", drivers.DNSConfig{Servers: []string{"1", "2"}, Searches: []string{"a"}, Options: []string{"x"}}, "nameserver 1\nnameserver 2\nsearch a\noptions x\n"},
	} {
		t.Run(tc.name, func(t *testing.T) { must.Eq(t, tc.want, system.overlaid(&tc.dns)) })
	}
	missing, err := systemResolver(filepath.Join(t.TempDir(), "none"))
	must.NoError(t, err)
	must.Eq(t, resolver{}, missing)
}

func TestNetwork_ExtraHosts(t *testing.T) {
	t.Parallel()
	must.Eq(t, []string{"a:192.0.2.1", "b:2001:db8::1", "c:2001:db8::2", "d:host-gateway"},
		assemble(t, newInput(t, `extra_hosts = ["a:192.0.2.1", "b:[2001:db8::1]", "c:2001:db8::2", "d:host-gateway"]`)).HostConfig.ExtraHosts)

	in := withGroup(newInput(t, `extra_hosts = ["a:192.0.2.1", "b:[2001:db8::1]"]`))
	r := assemble(t, in)
	must.Nil(t, r.HostConfig.ExtraHosts)
	must.Len(t, 1, r.Files)
	must.True(t, r.Files[0].Keep)
	must.StrContains(t, r.Files[0].Content, "127.0.0.1 localhost\n")
	must.StrContains(t, r.Files[0].Content, "\n172.26.64.2 web\n192.0.2.1 a\n2001:db8::1 b\n")
	m := r.HostConfig.Mounts[0]
	must.Eq(t, "/etc/hosts", m.Target)
	must.Eq(t, in.Task.AllocDir+"/hosts", m.Source)
	must.False(t, m.ReadOnly)

	assembleError(t, withGroup(newInput(t, `extra_hosts = ["a:host-gateway"]`)), `extra_hosts[0]: invalid hosts entry "a:host-gateway": invalid IP address`)
}

// TestNetwork_HostsAfterAgentRestart: the agent tells the address only once, the
// file stays (task-driver CC-16).
func TestNetwork_HostsAfterAgentRestart(t *testing.T) {
	t.Parallel()
	in := withGroup(newInput(t, ""))
	in.Task.AllocDir = t.TempDir()
	in.Task.NetworkIsolation.HostsConfig = nil
	must.Nil(t, assemble(t, in).HostConfig.Mounts)

	must.NoError(t, os.WriteFile(filepath.Join(in.Task.AllocDir, "hosts"), []byte("x"), 0o644))
	r := assemble(t, in)
	must.Eq(t, "/etc/hosts", r.HostConfig.Mounts[0].Target)
	must.Nil(t, r.Files)

	must.NoError(t, os.Remove(filepath.Join(in.Task.AllocDir, "hosts")))
	must.NoError(t, os.Symlink("/etc/shadow", filepath.Join(in.Task.AllocDir, "hosts")))
	must.Nil(t, assemble(t, in).HostConfig.Mounts)
}
