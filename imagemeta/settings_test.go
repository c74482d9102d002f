// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"net"
	"net/http"
	"testing"

	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"
	"github.com/shoenig/test/must"
)

func network(t *testing.T, cidr string) *net.IPNet {
	t.Helper()
	_, n, err := net.ParseCIDR(cidr)
	must.NoError(t, err)
	return n
}

func TestSettingsOf(t *testing.T) {
	s := SettingsOf(system.Info{
		OSType: "linux", Architecture: "aarch64",
		HTTPSProxy: "http://proxy:3128", NoProxy: "internal",
		RegistryConfig: &registry.ServiceConfig{
			InsecureRegistryCIDRs: []*registry.NetIPNet{(*registry.NetIPNet)(network(t, "10.1.0.0/16")), nil},
			IndexConfigs:          map[string]*registry.IndexInfo{"docker.io": {Secure: true}, "lab:5000": {Secure: false}, "nothing": nil},
			Mirrors:               []string{"https://mirror/"},
		},
	})
	must.Eq(t, "linux/arm64", s.platform())
	must.Eq(t, []string{"https://mirror/"}, s.Mirrors)
	must.MapEq(t, map[string]bool{"docker.io": true, "lab:5000": false}, s.Secure)
	must.Eq(t, "http://proxy:3128", s.HTTPSProxy)
	must.Eq(t, "internal", s.NoProxy)

	for registry, want := range map[string]bool{
		"lab:5000": true, "docker.io": false, "10.1.2.3:5000": true, "10.2.2.3:5000": false,
		"127.0.0.1:5000": true, "[::1]:5000": true, "localhost": true,
	} {
		must.Eq(t, want, s.allowsInsecure(t.Context(), registry), must.Sprint(registry))
	}

	masked := SettingsOf(system.Info{HTTPSProxy: "http://xxxxx:xxxxx@proxy:3128"})
	must.Eq(t, Settings{}, masked)
}

func TestSettings_proxy(t *testing.T) {
	s := Settings{HTTPSProxy: "http://proxy:3128", NoProxy: "internal"}
	choose := s.proxy()
	for url, want := range map[string]string{"https://registry.example/v2/": "http://proxy:3128", "https://internal/v2/": "", "http://registry.example/": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must.NoError(t, err)
		u, err := choose(req)
		must.NoError(t, err)
		got := ""
		if u != nil {
			got = u.String()
		}
		must.Eq(t, want, got, must.Sprint(url))
	}
}

func TestEndpoint_reference(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for in, want := range map[string]string{
		"busybox":                         "index.docker.io/library/busybox:latest",
		"nvidia/cuda:9.0-base":            "index.docker.io/nvidia/cuda:9.0-base",
		"docker.io/nvidia/cuda@" + digest: "index.docker.io/nvidia/cuda@" + digest,
		"registry.example:5000/a/b:c":     "registry.example:5000/a/b:c",
		"https://registry.example/a:b":    "registry.example/a:b",
		"registry.example/a:b@" + digest:  "registry.example/a@" + digest,
		"localhost/a":                     "localhost/a:latest",
		"[2001:db8::1]:5000/a":            "[2001:db8::1]:5000/a:latest",
	} {
		named, err := parse(in)
		must.NoError(t, err)
		all := Settings{}.endpoints(t.Context(), named)
		must.Len(t, 1, all)
		ref, err := all[0].reference(named)
		must.NoError(t, err)
		must.Eq(t, want, ref.Name(), must.Sprint(in))
	}
}
