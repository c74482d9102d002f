// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"io"
	"time"

	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
)

// Engine is what this package asks of a Docker Engine. *client.Client has it.
// None of the calls may have a time limit of its own: pulls take as long as
// their caller allows (cases DRV-07).
type Engine interface {
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (imagetypes.InspectResponse, error)
	ImagePull(ctx context.Context, ref string, opts imagetypes.PullOptions) (io.ReadCloser, error)
	ImageLoad(ctx context.Context, archive io.Reader, opts ...client.ImageLoadOption) (imagetypes.LoadResponse, error)
	ImageRemove(ctx context.Context, id string, opts imagetypes.RemoveOptions) ([]imagetypes.DeleteResponse, error)
}

// Config says how a Coordinator works.
type Config struct {
	// Engine returns the client to use for the next call. It is asked each time,
	// because the client changes when the engine is upgraded.
	Engine func() Engine
	// Logger is nil for no log.
	Logger hclog.Logger
	// GC says whether and when unused images are removed.
	GC GC
	// StateFile keeps the images in use and the removals that are due, so that
	// they outlive this process. Empty: memory only.
	StateFile string
}

// GC says what happens to images that no task uses any more.
type GC struct {
	// Enabled false: nothing is counted and nothing removed.
	Enabled bool
	// Delay is how long an image stays unused before it is removed.
	Delay time.Duration
	// ManagedOnly spares images that this driver neither pulled nor loaded.
	ManagedOnly bool
}
