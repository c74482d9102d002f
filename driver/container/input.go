// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Input is all that a create request depends on. Assemble only reads it.
type Input struct {
	// Task is what Nomad sent.
	Task *drivers.TaskConfig
	// Options are the validated options of the task.
	Options *config.Task
	// Plugin holds the validated options of the plugin.
	Plugin *config.Plugin
	Engine Engine
	Host   Host
	// ImageEnv is the image's environment, as KEY=VALUE; nil while the image is
	// not known yet.
	ImageEnv []string
	// GPU is what was reserved; nil means no GPU.
	GPU *GPU
}

// Engine holds facts about the engine.
type Engine struct {
	// APIVersion is the negotiated version, "1.41".
	APIVersion string
	// Runtimes are the names of the registered runtimes; nil means not known.
	Runtimes []string
	// NVIDIARuntimes are those of them that give GPUs away; see IsNVIDIARuntime.
	NVIDIARuntimes []string
	// DefaultRuntime is the engine's own choice; empty means not known.
	DefaultRuntime string
}

// Host holds facts about the machine. Empty paths mean the machine's own.
type Host struct {
	// CPUs is the number of logical processors.
	CPUs int
	// CgroupV2 tells the unified hierarchy.
	CgroupV2 bool
	// LastCapability is the highest capability number of the kernel
	// (/proc/sys/kernel/cap_last_cap); 0 means that every known one is supported.
	LastCapability int
	// ResolvConf is the system's resolver configuration, default /etc/resolv.conf.
	ResolvConf string
	// ProcDevices lists the kernel's device majors, default /proc/devices.
	ProcDevices string
}

// GPU is what a task with reserved GPUs gets.
type GPU struct {
	// UUIDs in reservation order, each once.
	UUIDs []string
	// Nodes are the reserved GPUs' device nodes and the control nodes. Those that
	// Nomad's device list already has are not added again.
	Nodes []gpuhost.DeviceNode
	// Volume is the driver volume; nil when the engine injects the driver itself.
	Volume *DriverVolume
	// DriverVersion of the host, "535.104.05"; it becomes a label.
	DriverVersion string
	// UseCompatLibraries puts the image's CUDA compatibility libraries first.
	UseCompatLibraries bool
	// Numbers are variables that tell the task what it got, however the GPUs come into
	// the container. What the task sets stays; what the image sets does not.
	Numbers map[string]string
	// Env holds variables that make loaders find parts of the volume; what the
	// task or the image sets stays.
	Env map[string]string
	// Libraries are files of the driver's libraries on the host by their names, for
	// gpu.extra_library_targets; nil when the task does not ask for that.
	Libraries map[string]string
}

// DriverVolume is the driver volume of this host's driver.
type DriverVolume struct {
	Name       string // "nvidia_driver_535.104.05"
	Mountpoint string // its directory on the host, for volume_mode "bind"
}
