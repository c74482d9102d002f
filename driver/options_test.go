// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/image"
)

// TestImageRequest: each option about a task's image reaches what gets the image.
func TestImageRequest(t *testing.T) {
	b := newBench(t, func(c *config.Plugin) {
		c.PullActivityTimeoutText = "3m"
		c.Auth.Config, c.Auth.Helper = "/etc/docker/config.json", "ecr-login"
	})
	b.start(b.task(nil))
	plain := b.images.asked
	must.Eq(t, image.Request{
		Ref: "registry.example/img:1", LoadDir: plain.LoadDir, Timeout: 5 * time.Minute, ActivityTimeout: 3 * time.Minute,
		Credentials: image.CredentialSource{ConfigFile: "/etc/docker/config.json", Helper: "ecr-login", Logger: plain.Credentials.Logger},
	}, plain)

	cfg := b.task(func(o *config.Task) {
		o.Image, o.ForcePull, o.Load = "img:2", true, "img.tar"
		o.ImagePullTimeoutText, o.AuthSoftFail = "7m", true
		o.Auth = config.TaskAuth{Username: "me", Password: "secret", Email: "me@example.org", ServerAddress: "example.org"}
		o.OS, o.Arch, o.Variant = "linux", "arm", "v7"
	})
	b.start(cfg)
	all := b.images.asked
	must.Eq(t, image.Request{
		Ref: "img:2", ForcePull: true, Load: "img.tar", LoadDir: cfg.TaskDir().LocalDir,
		Timeout: 7 * time.Minute, ActivityTimeout: 3 * time.Minute, Platform: "linux/arm/v7",
		Credentials: image.CredentialSource{
			Task:       image.Auth{Username: "me", Password: "secret", Email: "me@example.org", ServerAddress: "example.org"},
			ConfigFile: "/etc/docker/config.json", Helper: "ecr-login", SoftFail: true, Logger: all.Credentials.Logger,
		},
	}, all)
}

func TestPlatformOption(t *testing.T) {
	for _, tc := range []struct{ os, arch, variant, want string }{
		{"", "", "", ""},
		{"linux", "", "", "linux"},
		{"", "arm64", "", "linux/arm64"},
		{"", "arm", "v7", "linux/arm/v7"},
		{"freebsd", "amd64", "", "freebsd/amd64"},
	} {
		must.Eq(t, tc.want, platform(&config.Task{OS: tc.os, Arch: tc.arch, Variant: tc.variant}))
	}
}

func TestPauseImageRequest(t *testing.T) {
	b := newBench(t, func(c *config.Plugin) {
		c.InfraImage, c.InfraImagePullTimeoutText, c.PullActivityTimeoutText = "pause:1", "4m", "3m"
		c.Auth.Config, c.Auth.Helper = "/etc/docker/config.json", "ecr-login"
	})
	_, _, err := b.networks.CreateNetwork("8b2bd0de-1a2f-4a5f-9f2b-000000000001", nil)
	must.NoError(t, err)
	asked := b.images.asked
	must.Eq(t, image.Request{
		Ref: "pause:1", Timeout: 4 * time.Minute, ActivityTimeout: 3 * time.Minute,
		Credentials: image.CredentialSource{
			ConfigFile: "/etc/docker/config.json", Helper: "ecr-login", SoftFail: true, Logger: asked.Credentials.Logger,
		},
	}, asked)
}

func TestOptionsOfTheParts(t *testing.T) {
	cfg := config.DefaultPlugin()
	must.Eq(t, image.GC{Enabled: true, Delay: 3 * time.Minute}, imageGC(cfg))
	must.Eq(t, endpoint{Timeout: time.Minute}, endpointOf(cfg))

	cfg.GC.Image, cfg.GC.ImageDelay, cfg.GC.ImageScope = false, time.Hour, config.ImageScopeManaged
	must.Eq(t, image.GC{Delay: time.Hour, ManagedOnly: true}, imageGC(cfg))
	cfg.Endpoint, cfg.APITimeout = "tcp://x:1", time.Second
	cfg.TLS = config.TLS{Cert: "/cert.pem", Key: "/key.pem", CA: "/ca.pem"}
	must.Eq(t, endpoint{Host: "tcp://x:1", CertFile: "/cert.pem", KeyFile: "/key.pem", CAFile: "/ca.pem", Timeout: time.Second}, endpointOf(cfg))
}

// TestRealParts: what is made for this machine uses the options.
func TestRealParts(t *testing.T) {
	b := newBench(t, nil)
	cfg := config.DefaultPlugin()
	cfg.Endpoint, cfg.APITimeout = "tcp://192.0.2.1:1", 7*time.Second
	p, err := b.driver.realParts(cfg)
	must.NoError(t, err)
	defer p.host.Close()
	defer p.cancel()
	docker, ok := p.engine.(*dockerEngine)
	must.True(t, ok)
	must.Eq(t, endpointOf(cfg), docker.at)
	must.NotNil(t, p.makeImages)
}
