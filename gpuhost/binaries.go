// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"path/filepath"
)

// binaryNames are the driver's tools that a container may use (driver-files §2).
var binaryNames = []string{
	"nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-debugdump", "nvidia-persistenced", "nvidia-smi",
}

// binaryDirs are searched for them whatever this process's PATH is: a Nomad
// agent's often lacks sbin.
var binaryDirs = []string{
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
	"/usr/lib/nvidia/current", "/run/current-system/sw/bin", "/home/kubernetes/bin/nvidia/bin", "/opt/bin",
}

// binaryGlobs are directories with the driver's branch in their name.
var binaryGlobs = []string{"/usr/lib/nvidia-[0-9]*/bin"}

// binaries finds the tools, links resolved inside the root: some systems have
// them as links through the alternatives system. A missing one is left out.
func (r root) binaries() []Binary {
	dirs := append([]string(nil), binaryDirs...)
	for _, glob := range binaryGlobs {
		places, err := filepath.Glob(filepath.Join(string(r), glob))
		if err != nil {
			continue // the patterns are constants
		}
		for _, place := range places {
			dirs = append(dirs, r.inside(place))
		}
	}
	var found []Binary
	for _, name := range binaryNames {
		for _, dir := range dirs {
			if place, err := r.regular(filepath.Join(dir, name)); err == nil {
				found = append(found, Binary{Path: place, Name: name})
				break
			}
		}
	}
	return found
}
