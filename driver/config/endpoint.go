// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// endpointSchemes are the ways in which the engine client can connect.
var endpointSchemes = []string{"unix", "tcp", "http", "https"}

// foreignSchemes are accepted by other tools, but not ways to reach an engine here.
var foreignSchemes = map[string]string{
	"fd":    "is how systemd hands its socket to the engine itself",
	"npipe": "is there on Windows only",
}

const endpointExample = "unix:///var/run/docker.sock"

// validateEndpoint checks the form only; whether an engine answers there is the
// fingerprint's business. TLS files are read when the client is built.
func (p *Plugin) validateEndpoint(f *faults) {
	if p.Endpoint == "" {
		return
	}
	if _, _, err := DialURL(p.Endpoint); err != nil {
		f.add("endpoint", "failed to get docker client: %v", err)
	}
}

// DialURL turns an engine's URL into one of the scheme unix or tcp: the client dials
// others in some of its calls only, not for exec. A text without scheme is
// "<host>:<port>". The bool says that the URL asks for TLS.
func DialURL(endpoint string) (string, bool, error) {
	malformed := fmt.Errorf("%q is not <scheme>://<address>; use for example %q", endpoint, endpointExample)
	scheme, address, found := strings.Cut(endpoint, "://")
	if !found {
		scheme, address = "tcp", endpoint
	}
	address = strings.TrimRight(address, "/")
	if address == "" {
		return "", false, malformed
	}
	defaultPort := ""
	switch scheme {
	case "unix":
		return "unix://" + address, false, nil
	case "tcp":
	case "http":
		defaultPort = "80"
	case "https":
		defaultPort = "443"
	default:
		if why, known := foreignSchemes[scheme]; known {
			return "", false, fmt.Errorf("%q: the scheme %q %s; use for example %q", endpoint, scheme, why, endpointExample)
		}
		return "", false, fmt.Errorf("%q: the scheme %q is not known; use one of %s", endpoint, scheme, quotedList(endpointSchemes))
	}
	u, err := url.Parse("tcp://" + address)
	if err != nil || u.Hostname() == "" {
		return "", false, malformed
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", false, fmt.Errorf("%q must be <host>:<port> and perhaps a path; certificates go into tls", endpoint)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, fmt.Errorf("%q has no port from 1 to 65535; use for example %q", endpoint, "tcp://10.0.0.1:2376")
	}
	u.Host = net.JoinHostPort(u.Hostname(), port)
	return u.String(), scheme == "https", nil
}
