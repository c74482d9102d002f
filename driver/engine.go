// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"time"

	"github.com/docker/docker/api/types"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

// containerCalls are the calls on containers. Every call but Wait and Stop ends
// within the option api_timeout.
type containerCalls interface {
	// Create returns the id of the new container.
	Create(ctx context.Context, req *container.Request) (string, error)
	Start(ctx context.Context, id string) error
	Inspect(ctx context.Context, idOrName string) (engineapi.InspectResponse, error)
	// List returns running containers, or all, that carry every given label
	// ("key" or "key=value").
	List(ctx context.Context, all bool, labels ...string) ([]engineapi.Summary, error)
	// Kill sends a signal ("SIGTERM") to the main process.
	Kill(ctx context.Context, id, signal string) error
	// Stop sends the stop signal and, after grace (whole seconds), SIGKILL. An
	// empty signal means the container's own.
	Stop(ctx context.Context, id, signal string, grace time.Duration) error
	// Remove removes by force, with the anonymous volumes.
	Remove(ctx context.Context, id string) error
	// Wait blocks until the container does not run and returns its exit code.
	// An error says nothing about the container.
	Wait(ctx context.Context, id string) (int64, error)
}

// statsCalls is the stream of resource readings of one container.
type statsCalls interface {
	// Stats returns a stream of JSON objects, about one a second.
	Stats(ctx context.Context, id string) (io.ReadCloser, error)
}

// execCalls run further processes in a container.
type execCalls interface {
	ExecCreate(ctx context.Context, id string, opts engineapi.ExecOptions) (string, error)
	// ExecAttach starts the process and returns its streams. An engine before API
	// 1.42 is not told the console's size.
	ExecAttach(ctx context.Context, execID string, opts engineapi.ExecAttachOptions) (types.HijackedResponse, error)
	ExecResize(ctx context.Context, execID string, height, width uint) error
	ExecInspect(ctx context.Context, execID string) (engineapi.ExecInspect, error)
}

// systemCalls are the questions about the engine itself.
type systemCalls interface {
	// Version asks the engine for its versions and negotiates the API version
	// again when the engine was changed.
	Version(ctx context.Context) (types.Version, error)
	Info(ctx context.Context) (system.Info, error)
	Networks(ctx context.Context) ([]network.Summary, error)
	// OOMs calls seen for each container of ours in which a process was killed for
	// lack of memory, until ctx or the stream ends. It begins with what the engine
	// remembers, its last 256 events of all kinds.
	OOMs(ctx context.Context, seen func(containerID string)) error
	// APIVersion is the negotiated version, "1.41"; before the first call the
	// newest that this client knows.
	APIVersion() string
}

// engine is all that this package asks of a Docker Engine.
type engine interface {
	containerCalls
	statsCalls
	execCalls
	systemCalls
	// Close ends idle connections; calls in flight go on.
	Close() error
}
