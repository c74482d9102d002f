// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"regexp"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// hyphenUUID is what the built-in driver's reaper takes for its own naming.
var hyphenUUID = regexp.MustCompile(`-([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})`)

// Name is the name of a task's container: <task>_<alloc id>, or with
// compat_labels the built-in driver's <task>-<alloc id> (task-driver CX-2, CX-3).
func Name(p *config.Plugin, task *drivers.TaskConfig) string {
	return nameOf(p, task.Name, task.AllocID)
}

// PauseName is the name of the pause container of an allocation.
func PauseName(p *config.Plugin, allocID string) string {
	if p.CompatLabels {
		return "nomad_init_" + allocID
	}
	return "gpu-docker-init_" + allocID
}

func nameOf(p *config.Plugin, task, allocID string) string {
	task = strings.ReplaceAll(task, "/", "_")
	if p.CompatLabels {
		return task + "-" + allocID
	}
	return hyphenUUID.ReplaceAllString(task, "_$1") + "_" + allocID
}

// NamedAsLabelled says whether a container has the name that its labels give it,
// with compat_labels or without. One made from an image that "docker commit" wrote
// has the labels of a task, but a name of its own.
func NamedAsLabelled(name string, labels map[string]string) bool {
	for _, compat := range []bool{false, true} {
		if name == nameOf(&config.Plugin{CompatLabels: compat}, labels[LabelTaskName], labels[LabelAllocID]) {
			return true
		}
	}
	return false
}

// taskModePrefix starts a network_mode or ipc_mode that joins another task.
const taskModePrefix = "task:"

// joinedMode turns "task:<name>" into the engine's form: the other task's
// container of the same allocation. Any other mode stays.
func joinedMode(in *Input, mode string) string {
	other, found := strings.CutPrefix(mode, taskModePrefix)
	if !found {
		return mode
	}
	return containerModePrefix + nameOf(in.Plugin, other, in.Task.AllocID)
}

// containerModePrefix starts an engine mode that joins another container.
const containerModePrefix = "container:"
