// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// Host is what the API asks of a GPU host; *gpuhost.Host satisfies it.
type Host interface {
	// Inventory tells what the host has now; never nil.
	Inventory(ctx context.Context) *gpuhost.Inventory
	// Readings tells how it is doing, one sample shared by all readers; never nil.
	Readings(ctx context.Context) *gpuhost.Readings
	// UVMTools tells whether the control node nvidia-uvm-tools exists now.
	UVMTools() (bool, error)
	// XIDs counts the XID events since the host was opened, by UUID and XID.
	XIDs() map[string]map[uint64]uint64
}

// Volumes are the driver volumes of the host; *volume.Store satisfies it.
type Volumes interface {
	// List tells the complete volumes.
	List() ([]volume.Volume, error)
}

// Allocations tells which tasks hold which GPUs at this moment. Called for each
// request, so it must neither block nor ask the engine.
type Allocations interface {
	Allocations() []Allocation
}

// Allocation is one task's hold on one GPU, MIG device or share of a GPU.
type Allocation struct {
	// UUID is that of the GPU or MIG device, without the share's suffix.
	UUID string
	// Share is the number of a shared GPU's share ("2" of "GPU-…::2"), empty
	// when the GPU is held whole.
	Share string

	Namespace, Job, Group, Task string
	AllocID                     string
	Container                   string // the engine's full container id
	// Since is when the task started.
	Since time.Time
}

// Refusals tells which images were refused on this host.
type Refusals interface {
	// Refusals gives the newest few, newest first, and the count since start.
	Refusals() (recent []Refusal, total uint64)
}

// Refusal is one task that was not started because its image does not fit the
// driver.
type Refusal struct {
	Time                        time.Time
	Namespace, Job, Group, Task string
	Image                       string
	Reason                      string
}

// Usage tells what namespaces used; *accounting.Ledger satisfies it.
type Usage interface {
	// Usage gives one entry a namespace. Called for each scrape.
	Usage() []NamespaceUsage
}

// NamespaceUsage is what the tasks of one namespace used since this process
// started. Tasks and EnergyJoules count ended tasks only; the energy is that of
// tasks that held whole GPUs which tell it.
type NamespaceUsage struct {
	Namespace    string
	GPUSeconds   float64
	EnergyJoules float64
	Tasks        uint64
}
