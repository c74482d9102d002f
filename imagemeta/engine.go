// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/gpu-docker/gpu-docker/compat"
)

// Inspector is the one call that reads an image; *client.Client satisfies it.
type Inspector interface {
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
}

// Engine is what a Reader asks of a Docker Engine; *client.Client satisfies it.
type Engine interface {
	Inspector
	// Info tells how the engine is configured.
	Info(ctx context.Context) (system.Info, error)
}

// FromEngine reads an image that the engine has, in one call. The error is
// ErrNotFound if it does not have it.
func FromEngine(ctx context.Context, engine Inspector, ref string) (*Image, error) {
	ref = strings.TrimPrefix(ref, "https://")
	r, err := engine.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("image %q: %w", ref, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("engine cannot inspect image %q: %w", ref, err)
	}
	i := &Image{ID: r.ID, Origin: FromTheEngine}
	if len(r.RepoDigests) > 0 {
		_, i.Digest, _ = strings.Cut(r.RepoDigests[0], "@")
	}
	if r.Config != nil {
		i.Metadata = compat.Metadata{Labels: r.Config.Labels, Env: ParseEnv(r.Config.Env)}
	}
	return i, nil
}
