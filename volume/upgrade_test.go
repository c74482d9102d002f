// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// TestUpgrade: the old tree stays while a container refers to it (VOL-04).
func TestUpgrade(t *testing.T) {
	host := smallHost(t, t.TempDir())
	s := newStore(t, Config{}, host)
	old, err := s.Ensure(t.Context())
	must.NoError(t, err)

	host.driver.Version = "560.35.03"
	host.files = &gpuhost.DriverFiles{Version: "560.35.03", Libraries: []gpuhost.Library{
		{Path: host.files.Libraries[0].Path, Name: "libcuda.so.560.35.03", SONAME: "libcuda.so.1", Bits: 64},
	}}
	current, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.Eq(t, "nvidia_driver_560.35.03", current.Name)
	must.Eq(t, smallTree, listTree(t, old.Mountpoint))

	removed, err := s.Prune(t.Context(), func(version string) bool { return version == v550 })
	must.NoError(t, err)
	must.SliceEmpty(t, removed)
	removed, err = s.Prune(t.Context(), func(string) bool { return false })
	must.NoError(t, err)
	must.Len(t, 1, removed)
	must.Eq(t, old.Name, removed[0].Name)
	volumes, err := s.List()
	must.NoError(t, err)
	must.Eq(t, []Volume{{Name: current.Name, Version: "560.35.03", Mountpoint: current.Mountpoint}}, volumes)
	_, err = s.Manifest(v550)
	must.ErrorIs(t, err, fs.ErrNotExist)

	host.driver.Version = ""
	_, err = s.Prune(t.Context(), nil)
	must.ErrorIs(t, err, ErrNoDriver)
	volumes, err = s.List()
	must.NoError(t, err)
	must.Len(t, 1, volumes)
}

// TestTreeInUse mounts a volume as a container does.
func TestTreeInUse(t *testing.T) {
	mustRun(t, inNamespaces(child(t, "in use", t.TempDir(), t.TempDir())))
}

func childInUse(t *testing.T, root, dir string) {
	must.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"))
	host := smallHost(t, root)
	s := newStore(t, Config{Dir: filepath.Join(dir, "with blank", "volumes"), Files: FilesCopy}, host)
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	point := filepath.Join(dir, "container")
	must.NoError(t, os.Mkdir(point, 0o755))
	must.NoError(t, syscall.Mount(v.Mountpoint, point, "", syscall.MS_BIND, ""))

	must.ErrorIs(t, s.Remove(t.Context(), v.Name), ErrInUse)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))
	host.driver.Version = "560.35.03"
	removed, err := s.Prune(t.Context(), nil)
	must.NoError(t, err)
	must.SliceEmpty(t, removed)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))

	// Damage: the container keeps the tree that it mounted, as it is.
	host.driver.Version = v550
	must.NoError(t, os.Remove(filepath.Join(v.Mountpoint, "bin/nvidia-smi")))
	damaged := listTree(t, point)
	again, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.True(t, again.Built)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))
	must.Eq(t, damaged, listTree(t, point))

	// Its end lets the old tree go.
	must.NoError(t, syscall.Unmount(point, 0))
	_, err = s.Prune(t.Context(), nil)
	must.NoError(t, err)
	entries, err := os.ReadDir(s.parent())
	must.NoError(t, err)
	must.Len(t, 1, entries)
	must.NoError(t, s.Remove(t.Context(), v.Name))
	must.False(t, s.exists(v550))
}

func TestNoVolumeWithoutDriver(t *testing.T) {
	for _, tc := range []struct {
		title  string
		host   fakeHost
		kind   error
		phrase string
	}{
		{"no driver", fakeHost{reason: "libnvidia-ml.so.1 was not found"}, ErrNoDriver, "libnvidia-ml.so.1 was not found"},
		{"half an upgrade", fakeHost{driver: gpuhost.Driver{Version: "367.44", KernelVersion: "367.35"}}, ErrMismatch, `libraries are "367.44", kernel module is "367.35"; reboot`},
		{"files of another version", fakeHost{driver: gpuhost.Driver{Version: "367.44"}, files: &gpuhost.DriverFiles{Version: "367.35"}}, ErrMismatch, `"367.35"`},
		{"version with a path", fakeHost{driver: gpuhost.Driver{Version: "../../etc"}}, nil, "cannot name a volume"},
		{"search fails", fakeHost{driver: gpuhost.Driver{Version: "1.2"}, err: errors.New("cache is broken")}, nil, "cache is broken"},
	} {
		t.Run(tc.title, func(t *testing.T) {
			s := newStore(t, Config{}, &tc.host)
			_, err := s.Ensure(t.Context())
			must.ErrorContains(t, err, tc.phrase)
			if tc.kind != nil {
				must.ErrorIs(t, err, tc.kind)
			}
			_, err = os.Stat(s.parent())
			must.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// TestAdopt: a tree of hard links that v1 made is taken over as it is; a copy,
// whose content nothing proves, is made anew.
func TestAdopt(t *testing.T) {
	host := hostOf(t, t.TempDir(), k80, "")
	for _, files := range []Files{FilesLink, FilesCopy} {
		s := newStore(t, Config{Files: files}, host)
		v, err := s.Ensure(t.Context())
		must.NoError(t, err)
		ino := inode(t, v.Mountpoint).Ino
		must.NoError(t, os.RemoveAll(s.state))
		v, err = s.Ensure(t.Context())
		must.NoError(t, err)
		must.Eq(t, files == FilesCopy, v.Built)
		must.Eq(t, files == FilesLink, inode(t, v.Mountpoint).Ino == ino)
		must.NoError(t, s.intact(k80Version))
	}
}

// TestWiderCapabilities: a volume that lacks what is asked for is made anew.
func TestWiderCapabilities(t *testing.T) {
	host := hostOf(t, t.TempDir(), k80, "")
	dir := filepath.Join(t.TempDir(), "volumes")
	narrow := newStore(t, Config{Dir: dir, Capabilities: []string{"compute", "utility"}}, host)
	v, err := narrow.Ensure(t.Context())
	must.NoError(t, err)
	must.SliceNotContains(t, listTree(t, v.Mountpoint), "lib64/libGL.so.352.39")
	wide := newStore(t, Config{Dir: dir}, host)
	v, err = wide.Ensure(t.Context())
	must.NoError(t, err)
	must.True(t, v.Built)
	must.SliceContains(t, listTree(t, v.Mountpoint), "lib64/libGL.so.352.39")
	v, err = narrow.Ensure(t.Context())
	must.NoError(t, err)
	must.False(t, v.Built)
}
