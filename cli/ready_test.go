// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/volume"
)

// TestServe_ready: the service manager hears of the start once the socket is there,
// not before, so that the engine can be started then (cases VOL-12).
func TestServe_ready(t *testing.T) {
	dir := t.TempDir()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	must.NoError(t, err)
	defer manager.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		a := &app{stdout: io.Discard, stderr: io.Discard, getenv: func(name string) string {
			return map[string]string{"NOTIFY_SOCKET": filepath.Join(dir, "notify")}[name]
		}}
		done <- a.run(ctx, []string{"--driver-root", dir, "serve", "-l", "", "-d", filepath.Join(dir, "volumes"), "-s", dir})
	}()
	said := make([]byte, 64)
	n, err := manager.Read(said)
	must.NoError(t, err)
	must.Eq(t, "READY=1", string(said[:n]))
	must.FileExists(t, volume.SocketPath(dir))
	cancel()
	must.Eq(t, 0, <-done)
}

func TestNoServiceManager(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }}
	must.NoError(t, a.tellReady())
	a.getenv = func(string) string { return "/no/such/socket" }
	must.ErrorContains(t, a.tellReady(), `NOTIFY_SOCKET "/no/such/socket"`)
}

// TestUnit: what deploy's systemd unit says fits this program (cases VOL-12).
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("../deploy/gpu-docker.service")
	must.NoError(t, err)
	lines := map[string]string{}
	for line := range strings.Lines(string(unit)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			lines[key] = value
		}
	}
	must.Eq(t, "docker.service", lines["Before"])
	must.Eq(t, "notify", lines["Type"])
	must.Eq(t, "/usr/bin/gpu-docker serve $GPU_DOCKER_OPTIONS", lines["ExecStart"])
	must.Eq(t, "always", lines["Restart"], must.Sprint("a dead process' socket makes the engine wait"))
}
