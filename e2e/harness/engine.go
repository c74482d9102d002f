// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docker/docker/client"
)

// Engine is a running Docker Engine.
type Engine struct {
	Client *client.Client
	daemon *Process // nil when the engine ran before
	work   string   // folder of an engine of our own; empty for the machine's
}

// EnsureEngine connects to the machine's Docker Engine. When none answers it
// installs what is missing and starts dockerd, which Close ends again.
func EnsureEngine(ctx context.Context, say func(format string, args ...any)) (*Engine, error) {
	if err := EnsurePackages(ctx, say); err != nil {
		return nil, err
	}
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("docker client: %w", err)
	}
	engine := &Engine{Client: cli}
	if _, err := cli.Ping(ctx); err == nil {
		return engine, nil
	}
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	say("starting a Docker Engine")
	logFile := filepath.Join(os.TempDir(), fmt.Sprintf("gpu-docker-dockerd-%d.log", os.Getpid()))
	engine.daemon, err = StartProcess(logFile, nil, "dockerd")
	if err != nil {
		return nil, err
	}
	if err := engine.waitReady(ctx); err != nil {
		engine.Close()
		return nil, fmt.Errorf("start the Docker Engine: %w; its log is %q", err, logFile)
	}
	return engine, nil
}

// Started says whether this process started the engine.
func (e *Engine) Started() bool { return e.daemon != nil }

// Close ends the engine if EnsureEngine started it.
func (e *Engine) Close() {
	_ = e.Client.Close()
	if e.daemon != nil {
		e.daemon.Stop(syscall.SIGTERM, 30*time.Second)
		_ = os.Remove(e.daemon.logFile)
		_ = e.removeWork()
	}
}

// Docker runs the docker command line and returns what it prints.
func Docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("docker %v: %w: %s", args, err, lastLines(string(out), 3))
	}
	return string(out), nil
}
