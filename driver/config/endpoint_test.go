// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestDialURL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in, want string
		secure   bool
	}{
		{"unix:///var/run/docker.sock", "unix:///var/run/docker.sock", false},
		{"unix:///var/run/docker.sock/", "unix:///var/run/docker.sock", false},
		{"tcp://10.0.0.1:2376", "tcp://10.0.0.1:2376", false},
		{"tcp://10.0.0.1:2376/", "tcp://10.0.0.1:2376", false},
		{"tcp://proxy:1/engine/a", "tcp://proxy:1/engine/a", false},
		{"tcp://[::1]:2375", "tcp://[::1]:2375", false},
		{"10.0.0.1:2375", "tcp://10.0.0.1:2375", false},
		{"[::1]:2375/", "tcp://[::1]:2375", false},
		{"http://x:1", "tcp://x:1", false},
		{"http://x/", "tcp://x:80", false},
		{"https://x:1/", "tcp://x:1", true},
		{"https://[::1]", "tcp://[::1]:443", true},
	} {
		got, secure, err := DialURL(tc.in)
		must.NoError(t, err, must.Sprint(tc.in))
		must.Eq(t, tc.want, got)
		must.Eq(t, tc.secure, secure)
	}
	for _, tc := range []struct{ in, want string }{
		{"nonsense", `"nonsense" has no port from 1 to 65535; use for example "tcp://10.0.0.1:2376"`},
		{"tcp://x", `"tcp://x" has no port from 1 to 65535`},
		{"tcp://x:0", `"tcp://x:0" has no port from 1 to 65535`},
		{"x:65536", `"x:65536" has no port from 1 to 65535`},
		{"tcp://:2375", "is not <scheme>://<address>"},
		{"/var/run/docker.sock", `is not <scheme>://<address>; use for example "unix:///var/run/docker.sock"`},
		{"unix://", "is not <scheme>://<address>"},
		{"tcp://a b:1", "is not <scheme>://<address>"},
		{"https://me:secret@x:1", "certificates go into tls"},
		{"tcp://x:1?a=b", "must be <host>:<port> and perhaps a path"},
		{"fd://", "is not <scheme>://<address>"},
		{"fd://3", `the scheme "fd" is how systemd hands its socket to the engine itself; use for example "unix:///var/run/docker.sock"`},
		{"npipe:////./pipe/docker_engine", `the scheme "npipe" is there on Windows only`},
		{"ssh://x:1", `the scheme "ssh" is not known; use one of "unix", "tcp", "http", "https"`},
	} {
		_, _, err := DialURL(tc.in)
		must.ErrorContains(t, err, tc.want, must.Sprint(tc.in))
	}
}
