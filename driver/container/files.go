// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// File is a file that a container needs on the host.
type File struct {
	// Dir is the allocation's directory, Name the file's path below it.
	Dir, Name string
	Content   string
	// Keep leaves a file that is there already, because other tasks use it.
	Keep bool
}

// groupFile is a mounted file and what must be written for it.
type groupFile struct {
	mount mount.Mount
	files []File
}

const (
	hostsName  = "hosts"
	resolvName = "resolv.conf"
)

// hostsFile plans the hosts file that all tasks of a bridge group share. It is
// written once, so the first task's extra_hosts hold for all. Nomad tells the
// group's address only when it made the network; after a restart of the agent
// the file that is there is used (task-driver CC-16). Nil means that the
// container keeps the engine's own file.
func hostsFile(in *Input) (*groupFile, findings) {
	if !joinsGroup(in) {
		return nil, findings{}
	}
	content, found := hostsContent(in)
	name := filepath.Join(in.Task.AllocDir, hostsName)
	f := &groupFile{mount: fileMount(name, "/etc/hosts", false)}
	if in.Task.NetworkIsolation.HostsConfig == nil && len(in.Options.ExtraHosts) == 0 {
		if !isPlainFile(name) {
			return nil, found
		}
		return f, found
	}
	f.files = []File{{Dir: in.Task.AllocDir, Name: hostsName, Content: content, Keep: true}}
	return f, found
}

// hostsContent has the usual lines, the group's address and the extra hosts.
func hostsContent(in *Input) (string, findings) {
	var f findings
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n::1 ip6-localhost ip6-loopback\n" +
		"fe00::0 ip6-localnet\nff00::0 ip6-mcastprefix\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n")
	if h := in.Task.NetworkIsolation.HostsConfig; h != nil && h.Address != "" {
		fmt.Fprintf(&b, "%s %s\n", h.Address, h.Hostname)
	}
	for i, entry := range in.Options.ExtraHosts {
		option := fmt.Sprintf("extra_hosts[%d]", i)
		host, address, err := config.ParseExtraHost(entry)
		if err != nil {
			f.option(option, "%w", err)
			continue
		}
		if address == config.HostGateway {
			f.option(option, "invalid hosts entry %q: invalid IP address %q in a bridge group, whose hosts file the engine does not write", entry, address)
			continue
		}
		fmt.Fprintf(&b, "%s %s\n", address, host)
	}
	return b.String(), f
}

// resolvFile plans the resolver configuration of a task whose group sets DNS;
// what the group leaves out comes from the system (task-driver CC-17).
func resolvFile(in *Input) (*groupFile, findings) {
	var f findings
	if in.Task.DNS == nil {
		return nil, f
	}
	system, err := systemResolver(in.Host.ResolvConf)
	if err != nil {
		f.fault(err)
	}
	name := filepath.Join(in.Task.Name, resolvName)
	return &groupFile{
		mount: fileMount(filepath.Join(in.Task.AllocDir, name), "/etc/resolv.conf", true),
		files: []File{{Dir: in.Task.AllocDir, Name: name, Content: system.overlaid(in.Task.DNS)}},
	}, f
}

func fileMount(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
}
