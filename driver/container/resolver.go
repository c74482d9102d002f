// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// resolver is the content of a resolv.conf.
type resolver struct{ servers, searches, options []string }

const (
	systemResolvConf = "/etc/resolv.conf"
	// stubServer and stubUpstream: systemd-resolved answers on an address that a
	// container cannot reach, and keeps the real servers in a file of their own.
	stubServer   = "127.0.0.53"
	stubUpstream = "/run/systemd/resolve/resolv.conf"
)

// systemResolver reads the system's configuration; a missing one is empty.
func systemResolver(name string) (resolver, error) {
	if name == "" {
		name = systemResolvConf
	}
	r, err := readResolver(name)
	if err == nil && name == systemResolvConf && len(r.servers) == 1 && r.servers[0] == stubServer {
		return readResolver(stubUpstream)
	}
	return r, err
}

func readResolver(name string) (resolver, error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return resolver{}, nil
	}
	if err != nil {
		return resolver{}, fmt.Errorf("the system's resolver configuration: %w", err)
	}
	var r resolver
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case len(f) < 2:
		case f[0] == "nameserver":
			r.servers = append(r.servers, f[1])
		case f[0] == "search", f[0] == "domain":
			r.searches = f[1:]
		case f[0] == "options":
			r.options = f[1:]
		}
	}
	return r, nil
}

// overlaid writes the configuration with the given parts in place of its own.
func (r resolver) overlaid(dns *drivers.DNSConfig) string {
	choose := func(given, own []string) []string {
		if len(given) > 0 {
			return given
		}
		return own
	}
	var b strings.Builder
	for _, s := range choose(dns.Servers, r.servers) {
		b.WriteString("nameserver " + s + "\n")
	}
	if searches := choose(dns.Searches, r.searches); len(searches) > 0 {
		b.WriteString("search " + strings.Join(searches, " ") + "\n")
	}
	if options := choose(dns.Options, r.options); len(options) > 0 {
		b.WriteString("options " + strings.Join(options, " ") + "\n")
	}
	return b.String()
}
