// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(holds), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)))
}

// TestServe_upgrade: a driver that is replaced while serve runs gets its volume, and
// what hinders a build is told once (cases VOL-13).
func TestServe_upgrade(t *testing.T) {
	sim, err := simhost.Up(t.Context(), simhost.Options{Root: filepath.Join(t.TempDir(), "root"), Profile: "k80x4-352"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	host, err := gpuhost.Open(gpuhost.Config{DriverRoot: sim.Root(), Patience: time.Minute})
	must.NoError(t, err)
	defer host.Close()
	changed, unwatch := host.Watch()
	defer unwatch()
	dir := filepath.Join(t.TempDir(), "volumes")
	store, err := volume.NewStore(volume.Config{Dir: dir}, host)
	must.NoError(t, err)

	// A file where the volumes' directory should be.
	must.NoError(t, os.WriteFile(dir, nil, 0o600))
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	done, wake := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		buildAhead(ctx, host, store, wake, hclog.New(&hclog.LoggerOptions{Output: &said}))
	}()
	wake <- struct{}{}
	wake <- struct{}{}
	must.NoError(t, os.Remove(dir))
	wake <- struct{}{}
	eventually(t, func() bool { return exists(filepath.Join(dir, "nvidia_driver/352.39")) })

	// What somebody removes stays away.
	must.NoError(t, store.Remove(t.Context(), "nvidia_driver_352.39"))
	wake <- struct{}{}
	wake <- struct{}{} // taken only after the look that the first one led to
	must.False(t, exists(filepath.Join(dir, "nvidia_driver/352.39")))

	must.NoError(t, sim.Upgrade("535.104.05"))
	wake <- <-changed
	eventually(t, func() bool { return exists(filepath.Join(dir, "nvidia_driver/535.104.05")) })
	cancel()
	<-done
	must.Eq(t, 1, strings.Count(said.String(), "driver volume cannot be built now"), must.Sprint(said.String()))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestServe_XID: the metrics of serve count XID events, though nobody asked for the
// GPUs' health before (cases MET-06).
func TestServe_XID(t *testing.T) {
	sim, err := simhost.Up(t.Context(), simhost.Options{Root: filepath.Join(t.TempDir(), "root"), Profile: "a100x8-535"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	free, err := net.Listen("tcp", "127.0.0.77:0")
	must.NoError(t, err)
	address := free.Addr().String()
	must.NoError(t, free.Close())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		a := &app{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }}
		done <- a.run(ctx, []string{"--driver-root", sim.Root(), "serve", "-l", address, "-d", filepath.Join(t.TempDir(), "volumes"), "-s", ""})
	}()
	want := func(xid int) string { return fmt.Sprintf(`xid="%d"} 1`, xid) }
	eventually(t, func() bool { return strings.Contains(metrics(t, address), "gpu_healthy") })
	must.NoError(t, sim.XID(1, 79))
	eventually(t, func() bool { return strings.Contains(metrics(t, address), want(79)) })
	cancel()
	must.Eq(t, 0, <-done)
}

// metrics is what a server tells Prometheus; empty before it listens.
func metrics(t *testing.T, address string) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	must.NoError(t, err)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.NoError(t, err)
	return string(text)
}
