// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/client"
)

// OwnEngine is a Docker Engine of the machine's version beside the machine's own,
// which may be killed and started again. Its folders and its network namespace
// outlive its process.
type OwnEngine struct {
	*Engine
	liveRestore bool
	network     *Process // keeps the namespace
}

// StartOwnEngine starts an engine that leaves containers running while it is away
// (live-restore), or does not.
func StartOwnEngine(ctx context.Context, say func(format string, args ...any), liveRestore bool) (*OwnEngine, error) {
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	if err := EnsurePackages(ctx, say); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("/tmp", "gpu-docker-engine-")
	if err != nil {
		return nil, err
	}
	cli, err := client.NewClientWithOpts(client.WithHost("unix://"+filepath.Join(work, "docker.sock")), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	e := &OwnEngine{Engine: &Engine{Client: cli, work: work}, liveRestore: liveRestore}
	if err := e.begin(ctx); err != nil {
		e.Close()
		return nil, fmt.Errorf("start a Docker Engine of our own: %w", err)
	}
	return e, nil
}

// begin makes the namespace and starts the engine in it.
func (e *OwnEngine) begin(ctx context.Context) (err error) {
	// The machine's daemon.json is not for this engine.
	if err := os.WriteFile(filepath.Join(e.work, "daemon.json"), []byte("{}"), 0o644); err != nil {
		return err
	}
	ready := filepath.Join(e.work, "network-ready")
	e.network, err = StartProcess(filepath.Join(e.work, "network.log"), nil,
		"unshare", "--net", "sh", "-c", `ip link set lo up && touch "$1" && exec sleep infinity`, "sh", ready)
	if err != nil {
		return err
	}
	err = Eventually(ctx, 10*time.Second, func() error {
		_, err := os.Stat(ready)
		return err
	})
	if err != nil {
		return err
	}
	return e.Start(ctx)
}

// Start starts the engine (again) and waits until it answers.
func (e *OwnEngine) Start(ctx context.Context) (err error) {
	e.daemon, err = StartProcess(filepath.Join(e.work, "dockerd.log"), nil,
		"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", e.network.PID()), "--", "dockerd",
		"--config-file", filepath.Join(e.work, "daemon.json"), "--data-root", filepath.Join(e.work, "data"),
		"--exec-root", filepath.Join(e.work, "exec"), "--pidfile", filepath.Join(e.work, "pid"),
		"-H", e.Host(), "--iptables=false", "--ip6tables=false", fmt.Sprintf("--live-restore=%v", e.liveRestore))
	if err != nil {
		return err
	}
	return e.waitReady(ctx)
}

// Stop ends the engine with a signal; Start brings it back.
func (e *OwnEngine) Stop(ctx context.Context, sig syscall.Signal) error {
	e.daemon.Stop(sig, 30*time.Second)
	return e.containerdEnded(ctx)
}

// containerdEnded waits for the end of the engine's containerd, which goes with
// it: an engine that starts meanwhile takes it for alive and waits in vain.
func (e *OwnEngine) containerdEnded(ctx context.Context) error {
	pidFile := filepath.Join(e.work, "exec", "containerd", "containerd.pid")
	pid, err := os.ReadFile(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = Eventually(ctx, 20*time.Second, func() error {
		stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
		if err == nil && !strings.Contains(string(stat), ") Z ") { // a zombie has ended as well
			return fmt.Errorf("containerd %s still runs", pid)
		}
		return nil
	})
	return errors.Join(err, os.Remove(pidFile))
}

// Close ends the engine and removes what it kept. No container may run any more:
// with live-restore it would stay.
func (e *OwnEngine) Close() {
	e.Engine.Close()
	if e.network != nil {
		e.network.Stop(syscall.SIGKILL, 10*time.Second)
	}
	_ = unmountBelow(e.work) // the engine leaves its data folder mounted on itself
	_ = e.removeWork()
}
