// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
)

func TestPauseContainer(t *testing.T) {
	const alloc = "8b2bd0de-1a2f-4a5f-9f2b-000000000001"
	name := container.PauseName(config.DefaultPlugin(), alloc)

	t.Run("made once, found again, removed once", func(t *testing.T) {
		b := newBench(t, nil)
		// The boundary of Nomad 1.6 carries no hostname (task-driver GR-2).
		spec, created, err := b.driver.CreateNetwork(alloc, &drivers.NetworkCreateRequest{Hostname: "h"})
		must.NoError(t, err)
		must.True(t, created)
		must.Eq(t, "h", spec.Labels[hostnameLabel])
		must.Eq(t, 1, b.images.inUse())
		p, err := b.driver.ready()
		must.NoError(t, err)
		p.proc = namespaces(t, "lo", "eth0")
		again, created, err := b.networks.CreateNetwork(alloc, nil)
		must.NoError(t, err)
		must.False(t, created)
		must.Eq(t, spec.Labels[sandboxLabel], again.Labels[sandboxLabel])
		var doomed []string
		b.engine.onNext("remove", func() { doomed = p.state.Doomed() })
		must.NoError(t, b.networks.DestroyNetwork(alloc, spec))
		must.Eq(t, []string{spec.Labels[sandboxLabel]}, doomed, must.Sprint("a process that dies now would leave it behind"))
		must.SliceEmpty(t, p.state.Doomed())
		must.NoError(t, b.networks.DestroyNetwork(alloc, spec))
		must.SliceEmpty(t, b.engine.names())
	})
	t.Run("one whose namespace is bare is configured again", func(t *testing.T) {
		b := newBench(t, nil)
		spec, _, err := b.networks.CreateNetwork(alloc, nil)
		must.NoError(t, err)
		p, err := b.driver.ready()
		must.NoError(t, err)
		p.proc = namespaces(t, "lo", "tunl0")
		again, created, err := b.networks.CreateNetwork(alloc, nil)
		must.NoError(t, err)
		must.True(t, created)
		must.Eq(t, spec.Labels[sandboxLabel], again.Labels[sandboxLabel])
	})
	t.Run("a dead one is made anew", func(t *testing.T) {
		b := newBench(t, nil)
		dead := b.engine.put(name, map[string]string{container.LabelDriver: container.DriverName}, false, time.Now())
		spec, created, err := b.networks.CreateNetwork(alloc, nil)
		must.NoError(t, err)
		must.True(t, created)
		must.NotEq(t, dead.id, spec.Labels[sandboxLabel])
	})
	t.Run("one that does not start is removed", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", internal("exec format error"))
		_, _, err := b.networks.CreateNetwork(alloc, nil)
		must.ErrorContains(t, err, "exec format error")
		must.SliceEmpty(t, b.engine.names())
		must.Eq(t, 0, b.images.inUse())
	})
	t.Run("its image vanished", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("create", errNoImage)
		_, created, err := b.networks.CreateNetwork(alloc, nil)
		must.NoError(t, err)
		must.True(t, created)
		must.Eq(t, 2, b.images.pulls)
		must.Eq(t, 1, b.images.inUse())
	})
	t.Run("its image never stays", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("create", slices.Repeat([]error{errNoImage}, networkTries)...)
		_, _, err := b.networks.CreateNetwork(alloc, nil)
		must.ErrorContains(t, err, "No such image")
		must.Eq(t, networkTries, b.images.pulls)
		must.Eq(t, 0, b.images.inUse())
	})
	t.Run("found by its allocation", func(t *testing.T) {
		b := newBench(t, nil)
		_, _, err := b.networks.CreateNetwork(alloc, nil)
		must.NoError(t, err)
		must.NoError(t, b.driver.DestroyNetwork("other", nil)) // agents do not send it without a spec (GR-3)
		must.Len(t, 1, b.engine.names())
		must.NoError(t, b.driver.DestroyNetwork(alloc, nil))
		must.SliceEmpty(t, b.engine.names())
	})
}

// namespaces is a /proc in which process 1 has the interfaces.
func namespaces(t *testing.T, interfaces ...string) string {
	t.Helper()
	proc := t.TempDir()
	dir := filepath.Join(proc, "1", "net")
	must.NoError(t, os.MkdirAll(dir, 0o755))
	text := "Inter-|   Receive                                                |  Transmit\n" +
		" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
	for _, name := range interfaces {
		text += fmt.Sprintf("%6s:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n", name)
	}
	must.NoError(t, os.WriteFile(filepath.Join(dir, "dev"), []byte(text), 0o600))
	return proc
}

func TestBareNamespace(t *testing.T) {
	for _, tc := range []struct {
		interfaces []string
		want       bool
	}{
		{[]string{"lo"}, true},
		{[]string{"tunl0", "lo", "sit0"}, true},
		{[]string{"lo", "eth0"}, false},
		{[]string{"eth0", "lo"}, false},
	} {
		bare, err := bareNamespace(namespaces(t, tc.interfaces...), 1)
		must.NoError(t, err)
		must.Eq(t, tc.want, bare, must.Sprint(tc.interfaces))
	}
	_, err := bareNamespace(t.TempDir(), 1)
	must.ErrorContains(t, err, "network namespace of process 1")
	_, err = bareNamespace(procRoot, os.Getpid())
	must.NoError(t, err)
}

func TestGroupNetworkIsChecked(t *testing.T) {
	join := func(cfg *drivers.TaskConfig, id, path string) *drivers.TaskConfig {
		cfg.NetworkIsolation = &drivers.NetworkIsolationSpec{
			Mode: drivers.NetIsolationModeGroup, Path: path, Labels: map[string]string{sandboxLabel: id},
		}
		return cfg
	}
	b := newBench(t, nil)
	pause := b.engine.put("pause", nil, true, time.Now())
	pause.sandbox = "/ns/1"
	dead := b.engine.put("dead", nil, false, time.Now())
	for _, tc := range []struct{ name, id, path, wantErr string }{
		{"as it was", pause.id, "/ns/1", ""},
		{"made anew by the engine", pause.id, "/ns/0", "has lost its network"},
		{"dead", dead.id, "/ns/1", "does not run"},
		{"gone", "none", "/ns/1", "is gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := b.StartTask(join(b.task(nil), tc.id, tc.path))
			if tc.wantErr == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.wantErr)
			must.True(t, structs.IsRecoverable(err))
		})
	}
}

func TestAddress(t *testing.T) {
	on := func(networks map[string]*network.EndpointSettings) *engineapi.NetworkSettings {
		return &engineapi.NetworkSettings{Networks: networks}
	}
	v4, v6 := "10.0.0.2", "2001:db8::2"
	for _, tc := range []struct {
		name     string
		settings *engineapi.NetworkSettings
		ipv6     bool
		ip       string
		auto     bool
		others   int
		wantErr  string
	}{
		{name: "no network", settings: nil},
		{name: "the host's", settings: on(map[string]*network.EndpointSettings{"host": {}})},
		{name: "the engine's default", settings: on(map[string]*network.EndpointSettings{"bridge": {IPAddress: v4}}), ip: v4},
		{name: "a user's", settings: on(map[string]*network.EndpointSettings{"net": {IPAddress: v4}}), ip: v4, auto: true},
		{
			name: "the first of several by name", ip: v4, auto: true, others: 1,
			settings: on(map[string]*network.EndpointSettings{"b": {IPAddress: "10.0.0.3"}, "a": {IPAddress: v4}}),
		},
		{name: "IPv6 only counts", settings: on(map[string]*network.EndpointSettings{"net": {GlobalIPv6Address: v6}}), ip: v6, auto: true},
		{name: "IPv6 advertised", ipv6: true, settings: on(map[string]*network.EndpointSettings{"bridge": {IPAddress: v4, GlobalIPv6Address: v6}}), ip: v6, auto: true},
		{name: "no IPv6 to advertise", ipv6: true, settings: on(map[string]*network.EndpointSettings{"bridge": {IPAddress: v4}}), wantErr: `network "bridge" gives the container no global IPv6 address`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := findAddress(tc.settings, tc.ipv6)
			if tc.wantErr != "" {
				must.ErrorContains(t, err, tc.wantErr)
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.ip, a.ip)
			must.Eq(t, tc.auto, a.auto)
			must.Len(t, tc.others, a.others)
		})
	}
}
