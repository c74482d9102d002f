// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// dataRoots are where drivers put their configuration and data; an operator's
// file in /etc comes before the package's.
var dataRoots = []string{"/etc", "/usr/share"}

// dataDirs are the directories below them that have files of the driver
// (driver-files §6): Vulkan, EGL, OpenCL, and its own.
var dataDirs = []string{
	"vulkan/icd.d", "vulkan/implicit_layer.d", "glvnd/egl_vendor.d", "egl/egl_external_platform.d",
	"OpenCL/vendors", "nvidia",
}

// dataFiles finds the driver's configuration and data files, links resolved
// inside the root.
func (r root) dataFiles(version string) []DataFile {
	var files []DataFile
	for _, base := range dataRoots {
		for _, dir := range dataDirs {
			place, err := r.resolve(filepath.Join(base, dir))
			if err != nil {
				continue
			}
			entries, err := os.ReadDir(place)
			if err != nil {
				continue
			}
			for _, entry := range entries {
				if !isDriverData(entry.Name(), version) {
					continue
				}
				if file, err := r.regular(filepath.Join(base, dir, entry.Name())); err == nil {
					files = append(files, DataFile{Path: file, Name: path.Join(dir, entry.Name())})
				}
			}
		}
	}
	return files
}

// isDriverData says whether a file is NVIDIA's and, where its name has a version,
// of this driver.
func isDriverData(name, version string) bool {
	if rest, found := strings.CutPrefix(name, "nvidia-application-profiles-"); found {
		return strings.HasPrefix(rest, version+"-")
	}
	return strings.Contains(name, "nvidia") || strings.HasPrefix(name, "nvoptix")
}
