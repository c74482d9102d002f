// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/volume"
)

// relabels says whether the modes of a bind make the engine write the SELinux label
// of all files below its source.
func relabels(modes []string) bool { return slices.Contains(modes, "z") || slices.Contains(modes, "Z") }

// labelledBind is bind for an entry of the option volumes. A driver volume is never
// relabelled: its files may be hard links, whose label is that of the host's own
// driver files (cases VOL-11). The operator's label is left off there; a job that
// asks for one is told.
func labelledBind(in *Input, f *findings, option, source string, v config.Volume) string {
	if !showsDriverVolume(in, source) {
		return bind(in, source, v.Target, v.Mode)
	}
	if relabels(strings.Split(v.Mode, ",")) {
		f.option(option, "%q shows driver volumes, whose files can be the host's own, and must not be relabelled; leave the mode z or Z out", v.Source)
	}
	return plainBind(source, v.Target, v.Mode)
}

// showsDriverVolume says whether the source of a mount is a driver volume by name,
// or a path of the host that lies in the directory of these volumes or holds it.
func showsDriverVolume(in *Input, source string) bool {
	if _, err := volume.ParseName(source); err == nil {
		return true
	}
	if !filepath.IsAbs(source) {
		return false
	}
	for _, resolve := range []func(string) (string, error){cleanPath, realPath} {
		dir, err := resolve(in.Plugin.GPU.VolumesPath)
		name, err2 := resolve(source)
		if err == nil && err2 == nil && (within(dir, name) || within(name, dir)) {
			return true
		}
	}
	return false
}

func cleanPath(name string) (string, error) { return filepath.Clean(name), nil }
