// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

func TestLoaderEnv(t *testing.T) {
	root := t.TempDir()
	host := smallHost(t, root)
	s := newStore(t, Config{}, host)
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.MapEmpty(t, v.LoaderEnv("/usr/local/nvidia"))

	for _, name := range []string{"vulkan/icd.d/nvidia_icd.json", "glvnd/egl_vendor.d/10_nvidia.json", "egl/egl_external_platform.d/15_nvidia_gbm.json", "OpenCL/vendors/nvidia.icd"} {
		file := filepath.Join(root, filepath.Base(name))
		must.NoError(t, os.WriteFile(file, []byte("{}"), 0o644))
		host.files.Data = append(host.files.Data, gpuhost.DataFile{Path: file, Name: name})
	}
	must.NoError(t, s.Remove(t.Context(), v.Name))
	v, err = s.Ensure(t.Context())
	must.NoError(t, err)
	must.Eq(t, map[string]string{
		"VK_DRIVER_FILES":                     "/opt/nv/share/vulkan/icd.d/nvidia_icd.json",
		"VK_ICD_FILENAMES":                    "/opt/nv/share/vulkan/icd.d/nvidia_icd.json",
		"__EGL_VENDOR_LIBRARY_DIRS":           "/opt/nv/share/glvnd/egl_vendor.d:/etc/glvnd/egl_vendor.d:/usr/share/glvnd/egl_vendor.d",
		"__EGL_EXTERNAL_PLATFORM_CONFIG_DIRS": "/opt/nv/share/egl/egl_external_platform.d:/etc/egl/egl_external_platform.d:/usr/share/egl/egl_external_platform.d",
		"OCL_ICD_VENDORS":                     "/opt/nv/share/OpenCL/vendors/",
	}, v.LoaderEnv("/opt/nv"))
}
