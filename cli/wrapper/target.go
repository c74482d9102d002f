// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// The ports that an address may leave out.
const (
	defaultHost    = "localhost"
	defaultSSHPort = "22"
	defaultAPIPort = "3476"
)

// errBadHost is v1's text for every host that does not fit the grammar.
var errBadHost = errors.New("invalid remote host URI")

// Target is a machine whose REST API knows the GPUs. Nil means this machine.
type Target struct {
	Scheme    string // http or ssh
	Address   string // host:port to connect to
	ForwardTo string // with ssh: where the API is, seen from there
	User      string // with ssh: who logs in
}

// address is [user@][host][:ssh-port]:[http-port]; an IPv6 host stands in
// brackets and has one port only.
var address = regexp.MustCompile(`^(?:([^@:/]*)(?::[^@/]*)?@)?(?:([A-Za-z0-9._-]*)(?::([0-9]+))?|(\[[0-9A-Fa-f:.]+\]))(?::([0-9]*))$`)

var scheme = regexp.MustCompile(`^([a-z0-9+.-]+)://(.*)$`)

// ParseTarget reads NV_HOST and DOCKER_HOST; user is the default for ssh
// (nvidia-docker-v1 EN-1 to EN-4).
func ParseTarget(nvHost, dockerHost, user string) (*Target, error) {
	switch {
	case nvHost != "":
		return parse(nvHost, user)
	case dockerHost != "":
		return parseDockerHost(dockerHost, user)
	default:
		return nil, nil
	}
}

// parseDockerHost differs in two ways: over HTTP the port is docker's own, and
// docker's form ssh://user@host needs no colon (D15).
func parseDockerHost(uri, user string) (*Target, error) {
	if rest, isSSH := strings.CutPrefix(uri, "ssh://"); isSSH && rest != "" && !strings.Contains(rest, ":") {
		host, _, _ := strings.Cut(rest, "/")
		uri = "ssh://" + host + ":"
	}
	t, err := parse(uri, user)
	if err != nil || t == nil || t.Scheme != "http" {
		return t, err
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		return nil, errBadHost
	}
	t.Address = net.JoinHostPort(host, defaultAPIPort)
	return t, nil
}

func parse(uri, user string) (*Target, error) {
	kind, rest := "tcp", uri
	if m := scheme.FindStringSubmatch(uri); m != nil {
		kind, rest = m[1], m[2]
	}
	if kind == "unix" {
		return nil, nil
	}
	rest, _, _ = strings.Cut(rest, "/")
	if rest == "" {
		rest = ":"
	}
	m := address.FindStringSubmatch(rest)
	if m == nil || !validPort(m[3]) || !validPort(m[5]) {
		return nil, errBadHost
	}
	host := or(m[2]+strings.Trim(m[4], "[]"), defaultHost)
	apiPort := or(m[5], defaultAPIPort)
	switch kind {
	case "tcp", "http":
		return &Target{Scheme: "http", Address: net.JoinHostPort(host, apiPort), User: m[1]}, nil
	case "ssh":
		return &Target{
			Scheme:    "ssh",
			Address:   net.JoinHostPort(host, or(m[3], defaultSSHPort)),
			ForwardTo: net.JoinHostPort(defaultHost, apiPort),
			User:      or(m[1], user),
		}, nil
	default:
		return nil, errBadHost
	}
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
