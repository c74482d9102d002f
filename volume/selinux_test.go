// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// TestLabelledVolumeIsCopied: where labels decide, every file and directory is
// our own and labelled, and no host file is touched (VOL-11).
func TestLabelledVolumeIsCopied(t *testing.T) {
	s := newStore(t, Config{}, smallHost(t, t.TempDir()))
	labelled := map[string]bool{}
	s.cloner.link = false
	s.cloner.label = func(f *os.File) error {
		labelled[filepath.Base(f.Name())] = true
		return nil
	}
	_, err := s.Ensure(t.Context())
	must.NoError(t, err)
	m, err := s.Manifest(v550)
	must.NoError(t, err)
	must.False(t, m.Linked())
	for _, name := range []string{"bin", "lib", "lib64", "nvidia-smi", "libcuda.so." + v550} {
		must.True(t, labelled[name], must.Sprint(name))
	}
}
