// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// environment is the task's environment, sorted: Nomad's, then the ports of
// port_map, then what the GPU rules say.
func environment(in *Input) ([]string, findings) {
	env := maps.Clone(in.Task.Env)
	if env == nil {
		env = make(map[string]string)
	}
	for label, port := range in.Options.PortMap {
		env["NOMAD_PORT_"+identifier(label)] = strconv.Itoa(port)
	}
	f := gpuEnvironment(in, env)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, f
}

// identifier replaces what cannot be in a variable's name by "_".
func identifier(label string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, label)
}

// imageVariable looks up a variable of the image.
func imageVariable(in *Input, name string) (string, bool) {
	for _, entry := range in.ImageEnv {
		if key, value, found := strings.Cut(entry, "="); found && key == name {
			return value, true
		}
	}
	return "", false
}
