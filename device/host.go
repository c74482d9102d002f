// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// host is what the plugin asks of the GPU host; *gpuhost.Host satisfies it.
type host interface {
	// Inventory tells what the host has now; never nil.
	Inventory(ctx context.Context) *gpuhost.Inventory
	// Readings tells how it is doing; never nil.
	Readings(ctx context.Context) *gpuhost.Readings
	// Watch tells of changes between two inventories.
	Watch() (changed <-chan struct{}, stop func())
	// ControlNodes are the driver's control nodes that exist now.
	ControlNodes() []gpuhost.DeviceNode
	// GPUNode is the device node of a GPU.
	GPUNode(g *gpuhost.GPU) (gpuhost.DeviceNode, error)
	// MIGNodes are the capability nodes of a MIG device.
	MIGNodes(g *gpuhost.GPU, m *gpuhost.MIGDevice) ([]gpuhost.DeviceNode, error)
	// Close ends the use of the driver.
	Close()
}
