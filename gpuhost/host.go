// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import "context"

// Config says where the driver of a host is. The zero value is the machine itself.
type Config struct {
	// DriverRoot is the root file system in which the driver is installed;
	// empty means "/".
	DriverRoot string
	// NVMLLibrary names libnvidia-ml.so.1 itself when it is somewhere else;
	// empty means it is looked for under DriverRoot.
	NVMLLibrary string
}

// Host is one GPU host. Safe for concurrent use.
type Host struct {
	cfg Config
}

// Open prepares a host. It fails only for an impossible configuration (a
// relative path); a missing or broken driver is told by Inventory's Reason.
func Open(cfg Config) (*Host, error) { return &Host{cfg: cfg}, nil }

// Close ends all use of NVML by this host.
func (h *Host) Close() {}

// Inventory tells what the host has now. It is never nil and never waits longer
// than 2 s: when the driver is slower it returns the last known inventory.
// Static facts are asked once for each GPU and driver version.
func (h *Host) Inventory(ctx context.Context) *Inventory { return &Inventory{} }

// Readings returns a sample not older than one second, or the last one when
// NVML takes longer than 2 s. All callers share it. Never nil.
func (h *Host) Readings(ctx context.Context) *Readings { return &Readings{} }

// ControlNodes are the driver's control nodes that exist now: nvidiactl,
// nvidia-uvm, nvidia-uvm-tools, nvidia-modeset; in that order.
func (h *Host) ControlNodes() []DeviceNode { return nil }

// GPUNode is the device node of a GPU; an error names the missing node and its cure.
func (h *Host) GPUNode(g *GPU) (DeviceNode, error) { return DeviceNode{}, nil }
func (h *Host) DriverFiles(ctx context.Context) (*DriverFiles, error) { return nil, nil }
