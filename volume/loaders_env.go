// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// LoaderEnv gives the environment with which the Vulkan, EGL and OpenCL loaders
// of an image find the driver's configuration files in the volume, for images
// that have none of their own. mountPath is where the container sees the
// volume. A variable that the job or the image sets must win. Empty when the
// volume holds no such files, as for drivers that have none.
func (v *Volume) LoaderEnv(mountPath string) map[string]string {
	env := map[string]string{}
	if files := v.configFiles("vulkan/icd.d", mountPath); files != nil {
		env["VK_DRIVER_FILES"] = strings.Join(files, ":")  // loaders from 1.3.207 on
		env["VK_ICD_FILENAMES"] = strings.Join(files, ":") // older ones
	}
	// These two name directories and replace the built-in ones, so the image's come behind.
	for variable, dir := range map[string]string{
		"__EGL_VENDOR_LIBRARY_DIRS":           "glvnd/egl_vendor.d",
		"__EGL_EXTERNAL_PLATFORM_CONFIG_DIRS": "egl/egl_external_platform.d",
	} {
		if v.configFiles(dir, mountPath) != nil {
			env[variable] = strings.Join([]string{path.Join(mountPath, shareDir, dir), path.Join("/etc", dir), path.Join("/usr/share", dir)}, ":")
		}
	}
	if v.configFiles("OpenCL/vendors", mountPath) != nil {
		env["OCL_ICD_VENDORS"] = path.Join(mountPath, shareDir, "OpenCL/vendors") + "/"
	}
	return env
}

// configFiles lists the files of one configuration directory as the container
// sees them; nil when there is none.
func (v *Volume) configFiles(dir, mountPath string) []string {
	entries, err := os.ReadDir(filepath.Join(v.Mountpoint, shareDir, dir))
	if err != nil {
		return nil
	}
	var files []string
	for _, e := range entries {
		files = append(files, path.Join(mountPath, shareDir, dir, e.Name()))
	}
	return files
}
