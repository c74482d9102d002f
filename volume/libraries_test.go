// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func TestLibraries(t *testing.T) {
	s := newStore(t, Config{}, smallHost(t, t.TempDir()))
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	libraries, err := v.Libraries()
	must.NoError(t, err)
	cuda := filepath.Join(v.Mountpoint, "lib64", "libcuda.so."+v.Version)
	must.Eq(t, cuda, libraries["libcuda.so."+v.Version])
	must.Eq(t, cuda, libraries["libcuda.so.1"])
	for name, file := range libraries {
		info, err := os.Lstat(file)
		must.NoError(t, err)
		must.True(t, info.Mode().IsRegular(), must.Sprint(name))
	}
	gone := Volume{Name: "nvidia_driver_1", Mountpoint: t.TempDir()}
	_, err = gone.Libraries()
	must.ErrorContains(t, err, `driver volume "nvidia_driver_1" is damaged`)
}
