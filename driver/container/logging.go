// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"maps"

	"github.com/docker/docker/api/types/container"
)

// logging is the engine's log driver: the plugin's pair, unless the task says
// anything at all about it (task-driver CC-11).
func logging(in *Input) container.LogConfig {
	task := in.Options.Logging
	kind := task.Type
	if kind == "" {
		kind = task.Driver
	}
	if kind == "" && len(task.Config) == 0 {
		return container.LogConfig{Type: in.Plugin.Logging.Type, Config: maps.Clone(in.Plugin.Logging.Config)}
	}
	return container.LogConfig{Type: kind, Config: maps.Clone(task.Config)}
}
