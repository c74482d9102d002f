// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

// sinceEver is a time, in seconds since 1970, before all events.
const sinceEver = "1"

// stopSlack is how much longer than the grace period a stop call may take
// (task-driver SP-2).
const stopSlack = 5 * time.Minute

// endpoint says how to reach the engine.
type endpoint struct {
	// Host is the engine's URL; empty means DOCKER_HOST and its companions,
	// then the default socket.
	Host string
	// CertFile, KeyFile and CAFile are used with Host only.
	CertFile, KeyFile, CAFile string
	// Timeout bounds every ordinary call; streams have none.
	Timeout time.Duration
}

// dockerEngine speaks to one Docker Engine. The API version is negotiated at the
// first call, whichever way the engine is reached, and again when Version sees
// another one or a call is refused for it. Safe for concurrent use.
type dockerEngine struct {
	at     endpoint
	newest string // API version of this client, "1.51"

	current atomic.Pointer[client.Client]
}

var _ engine = (*dockerEngine)(nil)

// Docker is the client in use now. Ask again for each call: it changes when the
// engine is upgraded.
func (e *dockerEngine) Docker() *client.Client { return e.current.Load() }

func (e *dockerEngine) Close() error { return e.Docker().Close() }

// short bounds an ordinary call.
func (e *dockerEngine) short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, e.at.Timeout)
}

func (e *dockerEngine) Create(ctx context.Context, req *container.Request) (string, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	created, err := speak(ctx, e, func(c *client.Client) (engineapi.CreateResponse, error) {
		return c.ContainerCreate(ctx, req.Config, req.HostConfig, req.Networking, req.Platform, req.Name)
	})
	return created.ID, err
}

func (e *dockerEngine) Start(ctx context.Context, id string) error {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return command(ctx, e, func(c *client.Client) error { return c.ContainerStart(ctx, id, engineapi.StartOptions{}) })
}

func (e *dockerEngine) Inspect(ctx context.Context, idOrName string) (engineapi.InspectResponse, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return speak(ctx, e, func(c *client.Client) (engineapi.InspectResponse, error) { return c.ContainerInspect(ctx, idOrName) })
}

func (e *dockerEngine) List(ctx context.Context, all bool, labels ...string) ([]engineapi.Summary, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	wanted := filters.NewArgs()
	for _, l := range labels {
		wanted.Add("label", l)
	}
	return speak(ctx, e, func(c *client.Client) ([]engineapi.Summary, error) {
		return c.ContainerList(ctx, engineapi.ListOptions{All: all, Filters: wanted})
	})
}

func (e *dockerEngine) Kill(ctx context.Context, id, signal string) error {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return command(ctx, e, func(c *client.Client) error { return c.ContainerKill(ctx, id, signal) })
}

func (e *dockerEngine) Stop(ctx context.Context, id, signal string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+stopSlack)
	defer cancel()
	seconds := wholeSeconds(grace)
	return command(ctx, e, func(c *client.Client) error {
		return c.ContainerStop(ctx, id, engineapi.StopOptions{Signal: signal, Timeout: &seconds})
	})
}

// wholeSeconds rounds up, so that a grace below one second is not an immediate
// SIGKILL (task-driver SP-2).
func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

func (e *dockerEngine) Remove(ctx context.Context, id string) error {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return command(ctx, e, func(c *client.Client) error {
		return c.ContainerRemove(ctx, id, engineapi.RemoveOptions{RemoveVolumes: true, Force: true})
	})
}

func (e *dockerEngine) Wait(ctx context.Context, id string) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, errs := e.Docker().ContainerWait(ctx, id, engineapi.WaitConditionNotRunning)
	select {
	case r := <-results:
		if r.Error != nil && r.Error.Message != "" {
			return 0, fmt.Errorf("engine could not wait for container %q: %s", id, r.Error.Message)
		}
		return r.StatusCode, nil
	case err := <-errs:
		return 0, err
	case <-ctx.Done():
		select { // the client's reader ends now; do not leave it blocked
		case <-results:
		case <-errs: //nolint:errcheck // that the wait was cancelled
		}
		return 0, ctx.Err()
	}
}

func (e *dockerEngine) Stats(ctx context.Context, id string) (io.ReadCloser, error) {
	r, err := speak(ctx, e, func(c *client.Client) (engineapi.StatsResponseReader, error) { return c.ContainerStats(ctx, id, true) })
	return r.Body, err
}

func (e *dockerEngine) ExecCreate(ctx context.Context, id string, opts engineapi.ExecOptions) (string, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	created, err := speak(ctx, e, func(c *client.Client) (engineapi.ExecCreateResponse, error) {
		return c.ContainerExecCreate(ctx, id, opts)
	})
	return created.ID, err
}

func (e *dockerEngine) ExecAttach(ctx context.Context, execID string, opts engineapi.ExecAttachOptions) (types.HijackedResponse, error) {
	return e.Docker().ContainerExecAttach(ctx, execID, opts)
}

func (e *dockerEngine) ExecResize(ctx context.Context, execID string, height, width uint) error {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return e.Docker().ContainerExecResize(ctx, execID, engineapi.ResizeOptions{Height: height, Width: width})
}

func (e *dockerEngine) ExecInspect(ctx context.Context, execID string) (engineapi.ExecInspect, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return speak(ctx, e, func(c *client.Client) (engineapi.ExecInspect, error) { return c.ContainerExecInspect(ctx, execID) })
}

func (e *dockerEngine) Info(ctx context.Context) (system.Info, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return speak(ctx, e, func(c *client.Client) (system.Info, error) { return c.Info(ctx) })
}

func (e *dockerEngine) Networks(ctx context.Context) ([]network.Summary, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return speak(ctx, e, func(c *client.Client) ([]network.Summary, error) { return c.NetworkList(ctx, network.ListOptions{}) })
}

func (e *dockerEngine) OOMs(ctx context.Context, seen func(containerID string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wanted := filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)), filters.Arg("event", string(events.ActionOOM)),
		filters.Arg("label", container.LabelDriver+"="+container.DriverName))
	messages, errs := e.Docker().Events(ctx, events.ListOptions{Since: sinceEver, Filters: wanted})
	for {
		select {
		case m := <-messages:
			seen(m.Actor.ID)
		case err := <-errs:
			return err
		}
	}
}

func (e *dockerEngine) APIVersion() string { return e.Docker().ClientVersion() }
