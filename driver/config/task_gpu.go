// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"path"
	"slices"
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

	"extra_library_targets": attr("extra_library_targets", "list(string)"),
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
	// ExtraLibraryTargets are directories of the container in which each of the
	// driver's libraries is mounted as well, for programs that do not look at
	// LD_LIBRARY_PATH (cases CMP-09).
	ExtraLibraryTargets []string `codec:"extra_library_targets"`
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
	g.MountPath = containerDir(f, "gpu.mount_path", g.MountPath, "the driver volume", DefaultMountPath)
	for i, dir := range g.ExtraLibraryTargets {
		g.ExtraLibraryTargets[i] = containerDir(f, "gpu.extra_library_targets", dir, "libraries", "/usr/lib/x86_64-linux-gnu")
		if slices.Contains(g.ExtraLibraryTargets[:i], g.ExtraLibraryTargets[i]) {
			f.add("gpu.extra_library_targets", "%q is listed twice", g.ExtraLibraryTargets[i])
		}
	}
}

// containerDir cleans a directory of the container in which something is to be
// mounted, or faults it.
func containerDir(f *faults, option, dir, what, example string) string {
	clean := path.Clean(dir)
	switch {
	case !path.IsAbs(dir):
		f.absolute(option, dir, example)
	case clean == "/" || strings.ContainsAny(dir, ":,\x00"):
		f.add(option, "%q cannot hold %s; use for example %q", dir, what, example)
	}
	return clean
}

func (l *TaskLogs) validate(f *faults) {
	if l.MaxFiles < 0 {
		f.add("logs.max_files", "%d must be 1 or more", l.MaxFiles)
	}
	if l.MaxFileSizeMiB < 0 {
		f.add("logs.max_file_size", "%d must be 1 or more", l.MaxFileSizeMiB)
	}
}
