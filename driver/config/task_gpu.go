// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"path"
	"strings"
)

// What happens to a task whose GPU turns unhealthy.
const (
	OnUnhealthyEvent  = "event"
	OnUnhealthyFail   = "fail"
	OnUnhealthyIgnore = "ignore"
)

// DefaultMountPath is where a container finds the driver volume.
const DefaultMountPath = "/usr/local/nvidia"

var taskGPUKeys = keys{
	"count":        attr("count", "number"),
	"requirements": attr("requirements", "string"),
	"mount_path":   attrOr("mount_path", "string", `"`+DefaultMountPath+`"`),
	"on_unhealthy": attrOr("on_unhealthy", "string", `"`+OnUnhealthyEvent+`"`),
}

// TaskGPU holds the NVIDIA options of a task.
type TaskGPU struct {
	// Count is the number of reserved GPUs without which the task does not start;
	// nil means that any number is right.
	Count *int `codec:"count"`
	// Requirements overrides the plugin's, if compat.Policy allows it; empty means the plugin's.
	Requirements string `codec:"requirements"`
	// MountPath is where the container finds the driver volume.
	MountPath string `codec:"mount_path"`
	// OnUnhealthy is OnUnhealthyEvent, OnUnhealthyFail or OnUnhealthyIgnore.
	OnUnhealthy string `codec:"on_unhealthy"`
}

var taskLogsKeys = keys{
	"max_files":     attrOr("max_files", "number", "0"),
	"max_file_size": attrOr("max_file_size", "number", "0"),
}

// TaskLogs limits the log files of a task with the collector "driver".
type TaskLogs struct {
	MaxFiles       int `codec:"max_files"`     // 0: the plugin's
	MaxFileSizeMiB int `codec:"max_file_size"` // 0: the plugin's
}

func (g *TaskGPU) validate(f *faults) {
	if g.Count != nil && *g.Count < 0 {
		f.add("gpu.count", "%d must not be negative", *g.Count)
	}
	if g.Requirements != "" {
		f.oneOf("gpu.requirements", g.Requirements, requirementModes...)
	}
	if g.MountPath == "" {
		g.MountPath = DefaultMountPath
	}
	if g.OnUnhealthy == "" {
		g.OnUnhealthy = OnUnhealthyEvent
	}
	f.oneOf("gpu.on_unhealthy", g.OnUnhealthy, OnUnhealthyEvent, OnUnhealthyFail, OnUnhealthyIgnore)
	clean := path.Clean(g.MountPath)
	switch {
	case !path.IsAbs(g.MountPath):
		f.absolute("gpu.mount_path", g.MountPath, DefaultMountPath)
	case clean == "/" || strings.ContainsAny(g.MountPath, ":,\x00"):
		f.add("gpu.mount_path", "%q cannot hold the driver volume; use for example %q", g.MountPath, DefaultMountPath)
	default:
		g.MountPath = clean
	}
}

func (l *TaskLogs) validate(f *faults) {
	if l.MaxFiles < 0 {
		f.add("logs.max_files", "%d must be 1 or more", l.MaxFiles)
	}
	if l.MaxFileSizeMiB < 0 {
		f.add("logs.max_file_size", "%d must be 1 or more", l.MaxFileSizeMiB)
	}
}
