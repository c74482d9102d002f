// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

// TestKilledAtEveryStep kills a build at each of its steps, once where nothing
// was before and once where a damaged volume is replaced. What is left is a
// complete tree or none of ours, and the next build succeeds.
func TestKilledAtEveryStep(t *testing.T) {
	root := t.TempDir()
	host := smallHost(t, root)
	for _, damaged := range []bool{false, true} {
		for step := 1; ; step++ {
			dir := otherFileSystem(t)
			s := newStore(t, Config{Dir: dir, Files: FilesCopy}, host)
			before := []string(nil)
			if damaged {
				_, err := s.Ensure(t.Context())
				must.NoError(t, err)
				must.NoError(t, os.Remove(filepath.Join(s.tree(v550), "bin/nvidia-smi")))
				before = listTree(t, s.tree(v550))
			}
			cmd := child(t, "killed", root, dir)
			cmd.Env = append(cmd.Env, childStep+"="+strconv.Itoa(step))
			out, err := cmd.CombinedOutput()
			if err == nil {
				must.Greater(t, 15, step, must.Sprint("too few steps were seen"))
				break // the build has no more steps
			}
			var exit *exec.ExitError
			must.True(t, errors.As(err, &exit), must.Sprintf("%s", out))
			must.Eq(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), must.Sprintf("%s", out))
			completeOr(t, s, before)
			afterCrash(t, s)
		}
	}
}

// completeOr checks that the volume is complete, or as it was before.
func completeOr(t *testing.T, s *Store, before []string) {
	if s.intact(v550) == nil {
		must.Eq(t, smallTree, listTree(t, s.tree(v550)))
		return
	}
	if before == nil {
		must.False(t, s.exists(v550))
		return
	}
	must.Eq(t, before, listTree(t, s.tree(v550)))
}

// afterCrash checks that the next build gives the volume and leaves nothing else.
func afterCrash(t *testing.T, s *Store) {
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))
	_, err = s.Prune(t.Context(), nil)
	must.NoError(t, err)
	entries, err := os.ReadDir(s.parent())
	must.NoError(t, err)
	must.Len(t, 1, entries)
	must.NoError(t, s.intact(v550))
}

// TestFailureAtEveryStep: an error at any step is told and leaves nothing.
func TestFailureAtEveryStep(t *testing.T) {
	host := smallHost(t, t.TempDir())
	for step := 1; ; step++ {
		s := newStore(t, Config{}, host)
		left := step
		s.step = func(name string) error {
			left--
			if left == 0 {
				return syscall.ENOSPC
			}
			return nil
		}
		_, err := s.Ensure(t.Context())
		if err == nil {
			break
		}
		must.ErrorIs(t, err, syscall.ENOSPC)
		must.StrContains(t, err.Error(), "free space in")
		for _, name := range listTree(t, s.dir) {
			must.StrNotContains(t, name, besidePrefix)
		}
		s.step = nil
		afterCrash(t, s)
	}
}

// TestUnreadableSource: a file that vanished between search and build.
func TestUnreadableSource(t *testing.T) {
	host := smallHost(t, t.TempDir())
	gone := host.files.Libraries[1].Path
	must.NoError(t, os.Remove(gone))
	s := newStore(t, Config{}, host)
	_, err := s.Ensure(t.Context())
	must.ErrorIs(t, err, os.ErrNotExist)
	must.StrContains(t, err.Error(), gone)
	must.Eq(t, []string{"nvidia_driver/"}, listTree(t, s.dir))
}

func TestDiskFull(t *testing.T) {
	mustRun(t, inNamespaces(child(t, "disk full", t.TempDir(), t.TempDir())))
}

// childDiskFull builds on a file system that is too small, then on one that is not.
func childDiskFull(t *testing.T, root, dir string) {
	host := smallHost(t, root)
	big := filepath.Join(root, host.files.Libraries[1].Name)
	must.NoError(t, os.WriteFile(big, make([]byte, 1<<20), 0o755))
	must.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k,mode=0755"))
	s := newStore(t, Config{Dir: filepath.Join(dir, "volumes")}, host)
	_, err := s.Ensure(t.Context())
	must.ErrorIs(t, err, syscall.ENOSPC)
	must.StrContains(t, err.Error(), "free space in")
	must.Eq(t, []string{"nvidia_driver/"}, listTree(t, s.dir))
	must.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=8m,mode=0755"))
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))
	m, err := s.Manifest(v550)
	must.NoError(t, err)
	must.False(t, m.Linked())
}

// TestDamageIsNoticed changes one thing in a complete volume.
func TestDamageIsNoticed(t *testing.T) {
	for title, damage := range map[string]func(tree string) error{
		"file missing":     func(tree string) error { return os.Remove(filepath.Join(tree, "bin/nvidia-smi")) },
		"link missing":     func(tree string) error { return os.Remove(filepath.Join(tree, "lib64/libcuda.so")) },
		"directory gone":   func(tree string) error { return os.Remove(filepath.Join(tree, "lib")) },
		"stray file":       func(tree string) error { return os.WriteFile(filepath.Join(tree, "lib/x"), nil, 0o644) },
		"cut file":         func(tree string) error { return os.Truncate(filepath.Join(tree, "lib64/libcuda.so."+v550), 3) },
		"mode changed":     func(tree string) error { return os.Chmod(filepath.Join(tree, "bin/nvidia-smi"), 0o600) },
		"directory closed": func(tree string) error { return os.Chmod(filepath.Join(tree, "lib64"), 0o700) },
		"other content": func(tree string) error {
			return os.WriteFile(filepath.Join(tree, "bin/nvidia-smi"), []byte("#!/bin/no\n"), 0o755)
		},
		"link bent": func(tree string) error {
			name := filepath.Join(tree, "lib64/libcuda.so.1")
			return errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name))
		},
		"file for a directory": func(tree string) error {
			return errors.Join(os.RemoveAll(tree), os.WriteFile(tree, nil, 0o644))
		},
		"link for a directory": func(tree string) error {
			return errors.Join(os.RemoveAll(tree), os.Symlink(filepath.Dir(tree), tree))
		},
	} {
		t.Run(title, func(t *testing.T) {
			s := newStore(t, Config{Files: FilesCopy}, smallHost(t, t.TempDir()))
			v, err := s.Ensure(t.Context())
			must.NoError(t, err)
			again, err := s.Ensure(t.Context())
			must.NoError(t, err)
			must.False(t, again.Built)
			must.NoError(t, damage(v.Mountpoint))
			again, err = s.Ensure(t.Context())
			must.NoError(t, err)
			must.True(t, again.Built)
			must.Eq(t, smallTree, listTree(t, v.Mountpoint))
			afterCrash(t, s)
		})
	}
}

// TestMountRebuildsDamage: the engine mounts a volume that it knows without asking to create it.
func TestMountRebuildsDamage(t *testing.T) {
	host := smallHost(t, t.TempDir())
	s := newStore(t, Config{Files: FilesCopy}, host)
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.NoError(t, os.Remove(filepath.Join(v.Mountpoint, "bin/nvidia-smi")))
	a := s.mount(t.Context(), v.Name).(mountAnswer)
	must.Nil(t, a.Err)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))

	host.driver.Version = "560.1.2"
	must.NoError(t, os.Remove(filepath.Join(v.Mountpoint, "bin/nvidia-smi")))
	a = s.mount(t.Context(), v.Name).(mountAnswer)
	must.NotNil(t, a.Err)
	told := "driver volume is damaged: 1 of its " // what is wrong, and what to do
	must.StrHasPrefix(t, told, *a.Err)
	must.StrContains(t, *a.Err, "; driver "+v550+" must be loaded to build it again: load it, or create the container anew")

	host.driver.Version = ""
	a = s.mount(t.Context(), v.Name).(mountAnswer)
	must.StrHasPrefix(t, told, *a.Err)
}
