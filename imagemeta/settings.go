// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"
	"golang.org/x/net/http/httpproxy"
)

// Settings are how an engine reaches registries. The zero value is an engine
// with default settings.
type Settings struct {
	// Platform of the engine, "linux/amd64"; empty means this program's.
	Platform string
	// Secure tells for single registries ("host:port") whether TLS with a valid
	// certificate is demanded; for others, InsecureNetworks decides.
	Secure map[string]bool
	// InsecureNetworks are where TLS may be absent or invalid, as it always may on
	// a loopback address.
	InsecureNetworks []*net.IPNet
	// Mirrors are URLs to ask before Docker Hub.
	Mirrors []string
	// The engine's proxy; all empty means that of this program's environment.
	HTTPProxy, HTTPSProxy, NoProxy string
}

// SettingsOf takes the settings from what an engine tells about itself.
func SettingsOf(info system.Info) Settings {
	s := Settings{Platform: platformOf(info)}
	if c := info.RegistryConfig; c != nil {
		s.Mirrors = slices.Clone(c.Mirrors)
		for _, n := range c.InsecureRegistryCIDRs {
			if n != nil {
				s.InsecureNetworks = append(s.InsecureNetworks, (*net.IPNet)(n))
			}
		}
		s.Secure = make(map[string]bool, len(c.IndexConfigs))
		for host, index := range c.IndexConfigs {
			if index != nil {
				s.Secure[host] = index.Secure
			}
		}
	}
	if usable(info.HTTPProxy) && usable(info.HTTPSProxy) {
		s.HTTPProxy, s.HTTPSProxy, s.NoProxy = info.HTTPProxy, info.HTTPSProxy, info.NoProxy
	}
	return s
}

// usable: the engine masks credentials of a proxy, and without them it is none
// for us.
func usable(proxy string) bool { return !strings.Contains(proxy, "xxxxx:xxxxx@") }

// architectures are the kernel's names that differ from an image's.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}

func platformOf(info system.Info) string {
	if info.OSType == "" || info.Architecture == "" {
		return ""
	}
	arch, ok := architectures[info.Architecture]
	if !ok {
		arch = info.Architecture
	}
	return info.OSType + "/" + arch
}

func (s Settings) platform() string {
	if s.Platform == "" {
		return "linux/" + runtime.GOARCH
	}
	return s.Platform
}

// allowsInsecure says whether a registry ("host[:port]") may speak plain HTTP or
// show any certificate. Like the engine it looks names up.
func (s Settings) allowsInsecure(ctx context.Context, registry string) bool {
	if secure, ok := s.Secure[registry]; ok {
		return !secure
	}
	host := registry
	if h, _, err := net.SplitHostPort(registry); err == nil {
		host = h
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addresses, func(a net.IPAddr) bool {
		return a.IP.IsLoopback() || slices.ContainsFunc(s.InsecureNetworks, func(n *net.IPNet) bool { return n.Contains(a.IP) })
	})
}

// proxy chooses the proxy for a request.
func (s Settings) proxy() func(*http.Request) (*url.URL, error) {
	if s.HTTPProxy == "" && s.HTTPSProxy == "" {
		return http.ProxyFromEnvironment
	}
	choose := (&httpproxy.Config{HTTPProxy: s.HTTPProxy, HTTPSProxy: s.HTTPSProxy, NoProxy: s.NoProxy}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}
