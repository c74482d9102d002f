// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"

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
		if isNVIDIARuntime(in, in.Engine.DefaultRuntime) {
			return plainRuntime, f
		}
		return "", f
	}
	if !slices.Contains(in.Plugin.AllowRuntimes, name) {
		f.option("runtime", "requested runtime %q is not allowed; use one of %q", name, in.Plugin.AllowRuntimes)
	} else if in.Engine.Runtimes != nil && !slices.Contains(in.Engine.Runtimes, name) && !isShim(in, name) {
		f.option("runtime", "requested docker runtime %q was not found; add it under \"runtimes\" in the engine's daemon.json and restart the engine", name)
	}
	return name, f
}

// shimAPIVersion is the first engine API that takes runtimes of containerd by name.
const shimAPIVersion = "1.42"

// isShim says whether a name is that of a containerd shim, "io.containerd.kata.v2",
// which newer engines find without being told of it. Whether it is installed only
// the engine knows.
func isShim(in *Input, name string) bool {
	prefix, _, dotted := strings.Cut(name, ".")
	return dotted && prefix != "" && !strings.Contains(name, "/") &&
		!versions.LessThan(in.Engine.APIVersion, shimAPIVersion)
}

// IsNVIDIARuntime says whether a runtime of the engine gives containers the GPUs that
// their environment asks for: by its name or, whatever it is called, by its program. One
// that the engine does not tell about is judged by its name.
func IsNVIDIARuntime(p *config.Plugin, name string, told system.Runtime) bool {
	program, _ := told.Options["BinaryName"].(string) // of a runtime that has a shim
	return name != "" && (name == p.NVIDIARuntime || slices.ContainsFunc([]string{name, path.Base(told.Path), path.Base(program)}, func(word string) bool {
		return strings.Contains(word, "nvidia")
	}))
}

// isNVIDIARuntime is IsNVIDIARuntime for what is known of the engine.
func isNVIDIARuntime(in *Input, name string) bool {
	return slices.Contains(in.Engine.NVIDIARuntimes, name) || IsNVIDIARuntime(in.Plugin, name, system.Runtime{})
}

// engineInjects says whether the engine brings the driver into this container by
// itself, so that the driver volume and its search paths are not needed.
func engineInjects(in *Input) bool {
	return in.Plugin.GPU.Injection != config.InjectionVolume || isNVIDIARuntime(in, in.Options.Runtime)
}
