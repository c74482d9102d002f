// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
)

// TestJoinedContainer: what a task joins may not run yet or not be there; another
// try may do, and the option that names it is told, whichever way an engine says it
// (task-driver CC-24, AN-5).
func TestJoinedContainer(t *testing.T) {
	conflict := func(text string) error { return fmt.Errorf("%s: %w", text, errdefs.ErrConflict) }
	missing := func(text string) error { return fmt.Errorf("%s: %w", text, errdefs.ErrNotFound) }
	invalid := func(text string) error { return fmt.Errorf("%s: %w", text, errdefs.ErrInvalidArgument) }
	network := func(o *config.Task) { o.NetworkMode = "task:other" }
	ipc := func(o *config.Task) { o.IPCMode = "task:other" }
	both := func(o *config.Task) { o.NetworkMode, o.IPCMode = "task:other", "task:shm" }
	alone := func(*config.Task) {}
	const (
		networkHint = `"network_mode" "task:other" must name a container or task that runs already`
		ipcHint     = `"ipc_mode" "task:other" must name a container or task that runs already`
		groupHint   = "the group's network container is gone or does not run"
	)
	joined := func(mode string) string { // as the engine is sent it
		if mode == "" {
			return ""
		}
		return strings.Replace(mode, "task:", "container:", 1) + "_x"
	}
	for _, tc := range []struct {
		name   string
		change func(*config.Task)
		group  bool
		err    error
		idle   bool // worth a moment's wait
		want   string
	}{
		{"network, does not run", network, false, conflict("cannot join network namespace of a non running container: container other_x is created"), true, networkHint},
		{"network, does not run, engine 20.10", network, false, conflict("cannot join network of a non running container: 4f"), true, networkHint},
		{"network, restarts", network, false, conflict("cannot join network namespace of container: Container 4f is restarting, wait until the container is running"), true, networkHint},
		{"network, missing", network, false, internal("joining network namespace of container: No such container: other_x"), false, networkHint},
		{"network, missing, engine 20.10", network, false, missing("No such container: other_x"), false, networkHint},
		{"ipc, does not run", ipc, false, conflict("failed to join IPC namespace: container other_x is not running"), true, ipcHint},
		{"ipc, does not run, engine 20.10", ipc, false, conflict("can't join IPC of container 4f: container 4f is not running"), true, ipcHint},
		{"ipc, missing", ipc, false, invalid("failed to join IPC namespace: No such container: other_x"), false, ipcHint},
		{"ipc, missing, engine 20.10", ipc, false, missing("can't join IPC of container other_x: No such container: other_x"), false, ipcHint},
		{"both, ipc", both, false, conflict("failed to join IPC namespace: container shm_x is not running"), true, `"ipc_mode" "task:shm"`},
		{"both, network", both, false, conflict("cannot join network namespace of a non running container: container other_x is created"), true, networkHint},
		{"both, told by name", both, false, missing("No such container: shm_x"), false, `"ipc_mode" "task:shm"`},
		{"group, does not run", alone, true, conflict("cannot join network namespace of a non running container: container pause is exited"), true, groupHint},
		{"group, missing", alone, true, missing("No such container: id-9"), false, groupHint},
		{"a network of the engine", func(o *config.Task) { o.NetworkMode = "lan" }, false, missing("network lan_x not found"), false,
			`"network_mode" "lan" must name a network of the engine or a running task`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := &config.Task{}
			tc.change(options)
			host := &engineapi.HostConfig{IpcMode: engineapi.IpcMode(joined(options.IPCMode)), NetworkMode: engineapi.NetworkMode(joined(options.NetworkMode))}
			if tc.group {
				host.NetworkMode = "container:id-9"
			}
			s := &starting{options: options, request: &container.Request{HostConfig: host}, id: "id-1"}
			must.Eq(t, tc.idle, joinedIdle(tc.err))
			must.Eq(t, !tc.idle, joinedGone(tc.err))
			err := forNomad(s.joinFault(tc.err, tc.err))
			must.ErrorContains(t, err, tc.want)
			must.True(t, structs.IsRecoverable(err))
		})
	}
	t.Run("it does not start", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", slices.Repeat([]error{conflict("container shm_x is not running")}, transientTries+1)...)
		_, _, err := b.StartTask(b.task(ipc))
		must.ErrorContains(t, err, ipcHint)
		must.True(t, structs.IsRecoverable(err))
		must.SliceEmpty(t, b.engine.names())
	})
	t.Run("it is not there", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", internal("joining network namespace of container: No such container: other_x"))
		_, _, err := b.StartTask(b.task(network))
		must.ErrorContains(t, err, networkHint)
		must.True(t, structs.IsRecoverable(err))
		must.Eq(t, 1, b.engine.called("start"))
	})
	t.Run("it starts a moment later", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", conflict("cannot join network namespace of a non running container: container other_x is created"))
		b.start(b.task(network))
		must.Eq(t, 2, b.engine.called("start"))
	})
	t.Run("nothing is joined", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", missing("No such container: id-1"))
		_, _, err := b.StartTask(b.task(alone))
		must.True(t, structs.IsRecoverable(err))
		must.StrNotContains(t, err.Error(), "network")
	})
	t.Run("its shared memory is its own", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", internal("can't join IPC of container 4f: non-shareable IPC (hint: use IpcMode:shareable for the donor container)"))
		_, _, err := b.StartTask(b.task(ipc))
		must.ErrorContains(t, err, `must have ipc_mode = "shareable"`)
		must.False(t, structs.IsRecoverable(err))
	})
}
