// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"

	"github.com/docker/docker/client"
)

// engine is the Docker Engine that DOCKER_HOST names, as for docker itself.
type engine struct{ *client.Client }

func newEngine() (*engine, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("docker engine: %w; check DOCKER_HOST", err)
	}
	return &engine{c}, nil
}

// close gives up idle connections; there is nothing to be done about an error.
func (e *engine) close() { _ = e.Close() }
