// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"strings"
)

// endpointSchemes are the ways in which the engine client can connect.
var endpointSchemes = []string{"unix", "tcp", "http", "https", "npipe", "fd"}

// validateEndpoint checks the form only; whether an engine answers there is the
// fingerprint's business. TLS files are read when the client is built.
func (p *Plugin) validateEndpoint(f *faults) {
	if p.Endpoint == "" {
		return
	}
	scheme, address, found := strings.Cut(p.Endpoint, "://")
	if !found || address == "" {
		f.add("endpoint", "failed to get docker client: %q is not <scheme>://<address>; use for example %q",
			p.Endpoint, "unix:///var/run/docker.sock")
		return
	}
	f.oneOf("endpoint", scheme, endpointSchemes...)
}
