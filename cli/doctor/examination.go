// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// Host is what the doctor asks of a GPU host; *gpuhost.Host satisfies it.
type Host interface {
	Inventory(ctx context.Context) *gpuhost.Inventory
	ControlNodes() []gpuhost.DeviceNode
	GPUNode(g *gpuhost.GPU) (gpuhost.DeviceNode, error)
	MIGNodes(g *gpuhost.GPU, m *gpuhost.MIGDevice) ([]gpuhost.DeviceNode, error)
	DriverFiles(ctx context.Context) (*gpuhost.DriverFiles, error)
}

// Engine is what the doctor asks of a Docker Engine; docker's client satisfies it.
type Engine interface {
	DaemonHost() string
	Info(ctx context.Context) (system.Info, error)
	ServerVersion(ctx context.Context) (types.Version, error)
	ContainerList(ctx context.Context, options container.ListOptions) ([]container.Summary, error)
}

// Volumes are the driver volumes; *volume.Store satisfies it.
type Volumes interface {
	List() ([]volume.Volume, error)
}

// Examination says what to look at.
type Examination struct {
	Host      Host
	Engine    Engine // nil with EngineErr: there is no client for an engine
	EngineErr error
	Volumes   Volumes
	// SocketDir is where the volume driver's socket should be; empty: it is off.
	SocketDir string
	// SpecDirs are where the engine finds the addresses of plugins; EngineSpecDirs
	// but in tests.
	SpecDirs []string
	// StateDirs are the directories that the program keeps things in.
	StateDirs []string
	// APIAddress is where the REST API should answer; empty: it is off.
	APIAddress string
	// PluginDir is the plugin_dir of the Nomad agent; empty when it is not known.
	PluginDir string
	// Program is the file of this program, which both plugins should be.
	Program string
}

// partLimit bounds the questions to one part.
const partLimit = 5 * time.Second

// Run asks everything. The findings come in a fixed order.
func (e *Examination) Run(ctx context.Context) []Finding {
	var all []Finding
	for _, part := range []func(context.Context) []Finding{
		e.driver, e.gpus, e.nodes, e.files, e.plugins, e.engine, e.socket, e.specs, e.api, e.stateDirs, e.volumes, e.users,
	} {
		ctx, cancel := context.WithTimeout(ctx, partLimit)
		all = append(all, part(ctx)...)
		cancel()
	}
	return all
}
