// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"io"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/go-hclog"
)

// Engine is what this package asks of a Docker Engine. *client.Client has it.
// ContainerLogs must have no time limit.
type Engine interface {
	ContainerLogs(ctx context.Context, id string, opts container.LogsOptions) (io.ReadCloser, error)
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
}

// Config says what one Shipper ships, and where to.
type Config struct {
	// Engine returns the client to use for the next call.
	Engine func() Engine
	// Container is the full id.
	Container string
	// TTY is the container's tty option: one raw stream, shipped as stdout.
	TTY bool
	// Watcher lets the Shipper read the files of the engine's log driver json-file
	// directly, where they are on this machine. Nil: always through the engine.
	Watcher *Watcher
	// Ahead, from the same Watcher, has the files open since before the container
	// started; the Shipper closes it. Nil: they are opened now.
	Ahead *Ahead
	// Sink is used by this Shipper only.
	Sink Sink
	// Logger is nil for no log.
	Logger hclog.Logger
	// Emit receives task events; nil for none. It must not block.
	Emit func(message string)
}
