// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// selinuxStore is a store as on a host whose SELinux tells state, "1" for
// enforcing; labels go to labelled instead of into the file system.
func selinuxStore(t *testing.T, state string, cfg Config, host Host, labelled map[string]bool) *Store {
	t.Helper()
	cfg.enforceFile = filepath.Join(t.TempDir(), "enforce")
	must.NoError(t, os.WriteFile(cfg.enforceFile, []byte(state), 0o644))
	s := newStore(t, cfg, host)
	must.Eq(t, state == "1", s.cloner.label != nil)
	if s.cloner.label != nil {
		s.cloner.label = func(f *os.File) error {
			labelled[filepath.Base(f.Name())] = true
			return nil
		}
	}
	return s
}

// TestLabelledVolumeIsCopied: where labels decide, every file and directory is
// our own and labelled, and no host file is touched (VOL-11).
func TestLabelledVolumeIsCopied(t *testing.T) {
	labelled := map[string]bool{}
	s := selinuxStore(t, "1", Config{}, smallHost(t, t.TempDir()), labelled)
	_, err := s.Ensure(t.Context())
	must.NoError(t, err)
	m, err := s.Manifest(v550)
	must.NoError(t, err)
	must.False(t, m.Linked())
	for _, name := range []string{"bin", "lib", "lib64", "nvidia-smi", "libcuda.so." + v550} {
		must.True(t, labelled[name], must.Sprint(name))
	}
}

// TestTreesOfBeforeSELinux: a tree that was made while labels did not decide is made
// anew once they do, whether it was linked or copied, by us or by nvidia-docker v1; a
// tree that is right stays (cases VOL-11).
func TestTreesOfBeforeSELinux(t *testing.T) {
	for _, tc := range []struct {
		title          string
		before, after  Files
		wasEnforcing   string
		withoutRecord  bool
		built, linkNow bool
	}{
		{"linked by us", FilesAuto, FilesAuto, "0", false, true, false},
		{"linked by v1", FilesAuto, FilesAuto, "0", true, true, false},
		{"copied by us", FilesCopy, FilesAuto, "0", false, true, false},
		{"linked on demand, no longer wanted", FilesLink, FilesAuto, "1", false, true, false},
		{"linked on demand by v1", FilesLink, FilesLink, "0", true, true, true},
		{"linked on demand", FilesLink, FilesLink, "1", false, false, true},
		{"made while enforcing", FilesAuto, FilesAuto, "1", false, false, false},
	} {
		t.Run(tc.title, func(t *testing.T) {
			host, dir, labelled := smallHost(t, t.TempDir()), filepath.Join(t.TempDir(), "volumes"), map[string]bool{}
			old := selinuxStore(t, tc.wasEnforcing, Config{Dir: dir, Files: tc.before}, host, labelled)
			_, err := old.Ensure(t.Context())
			must.NoError(t, err)
			if tc.withoutRecord {
				must.NoError(t, os.RemoveAll(old.state))
			}

			clear(labelled)
			s := selinuxStore(t, "1", Config{Dir: dir, Files: tc.after}, host, labelled)
			v, err := s.Ensure(t.Context())
			must.NoError(t, err)
			must.Eq(t, tc.built, v.Built)
			must.Eq(t, tc.built, labelled["lib64"])
			source, err := os.Stat(host.files.Libraries[0].Path)
			must.NoError(t, err)
			made, err := os.Stat(filepath.Join(v.Mountpoint, "lib64/libcuda.so."+v550))
			must.NoError(t, err)
			must.Eq(t, tc.linkNow, os.SameFile(source, made))
		})
	}
}
