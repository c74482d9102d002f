// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"slices"
	"strings"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// plainRuntime injects nothing.
const plainRuntime = "runc"

// runtimeName chooses the engine runtime; empty leaves it to the engine.
//
// The task's choice must be one that the operator allows. Only with the injection
// "runtime" a task with GPUs needs one, the plugin's nvidia_runtime. Where the
// engine's default runtime would inject GPUs by itself, the plain one is named,
// so that it is the reservation that decides (cases DRV-02).
func runtimeName(in *Input) (string, findings) {
	var f findings
	name := in.Options.Runtime
	if in.GPU != nil && in.Plugin.GPU.Injection == config.InjectionRuntime {
		wanted := in.Plugin.NVIDIARuntime
		if name != "" && name != wanted {
			f.option("runtime", "conflicting runtime requests: gpu runtime %q conflicts with task runtime %q; remove the option", wanted, name)
		}
		name = wanted
	}
	if name == "" {
		if isNVIDIARuntime(in.Plugin, in.Engine.DefaultRuntime) {
			return plainRuntime, f
		}
		return "", f
	}
	if !slices.Contains(in.Plugin.AllowRuntimes, name) {
		f.option("runtime", "requested runtime %q is not allowed; use one of %q", name, in.Plugin.AllowRuntimes)
	} else if in.Engine.Runtimes != nil && !slices.Contains(in.Engine.Runtimes, name) {
		f.option("runtime", "requested docker runtime %q was not found; add it under \"runtimes\" in the engine's daemon.json and restart the engine", name)
	}
	return name, f
}

// isNVIDIARuntime says whether a runtime injects GPUs by what the environment says.
func isNVIDIARuntime(p *config.Plugin, name string) bool {
	return name != "" && (name == p.NVIDIARuntime || strings.Contains(name, "nvidia"))
}

// engineInjects says whether the engine brings the driver into this container by
// itself, so that the driver volume and its search paths are not needed.
func engineInjects(in *Input) bool {
	return in.Plugin.GPU.Injection != config.InjectionVolume || isNVIDIARuntime(in.Plugin, in.Options.Runtime)
}
