// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

func TestModesDoNotDependOnUmask(t *testing.T) {
	mustRun(t, child(t, "umask", t.TempDir(), filepath.Join(t.TempDir(), "volumes")))
}

func childUmask(t *testing.T, root, dir string) {
	host := smallHost(t, root)
	syscall.Umask(0o077)
	for _, files := range []Files{FilesLink, FilesCopy} {
		s := newStore(t, Config{Dir: filepath.Join(dir, string(files)), Files: files}, host)
		_, err := s.Ensure(t.Context())
		must.NoError(t, err)
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			must.NoError(t, err)
			fi, err := d.Info()
			must.NoError(t, err)
			if d.IsDir() || filepath.Base(filepath.Dir(path)) == "bin" {
				must.Eq(t, os.FileMode(0o755), fi.Mode().Perm(), must.Sprint(path))
			}
			return nil
		})
		must.NoError(t, err)
	}
}

// TestUnprivileged: a user who may not link files that are not his
// (protected_hardlinks) gets copies.
func TestUnprivileged(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "home")
	must.NoError(t, os.Mkdir(dir, 0o755))
	root := filepath.Join(base, "root")
	smallHost(t, root)
	cmd := child(t, "unprivileged", root, dir)
	if os.Getuid() == 0 {
		must.NoError(t, os.Chown(dir, nobody, nobody))
		for up := base; up != filepath.Dir(os.TempDir()) && up != "/"; up = filepath.Dir(up) {
			if fi, err := os.Stat(up); err == nil && fi.Mode().Perm()&0o005 == 0 {
				must.NoError(t, os.Chmod(up, 0o755))
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Dir = dir
		cmd.Path = readableBinary(t, base)
	}
	mustRun(t, cmd)
}

const nobody = 65534

// readableBinary copies this test binary to where every user can run it.
func readableBinary(t *testing.T, dir string) string {
	self, err := os.ReadFile("/proc/self/exe")
	must.NoError(t, err)
	name := filepath.Join(dir, "volume.test")
	must.NoError(t, os.WriteFile(name, self, 0o755))
	return name
}

func childUnprivileged(t *testing.T, root, dir string) {
	host := smallHost(t, root)
	s := newStore(t, Config{Dir: filepath.Join(dir, "volumes")}, host)
	host.files.Binaries[0].Path = "/bin/sh" // root's, whoever the test's user is
	real, err := filepath.EvalSymlinks("/bin/sh")
	must.NoError(t, err)
	host.files.Binaries[0].Path = real
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	m, err := s.Manifest(v550)
	must.NoError(t, err)
	must.Eq(t, MethodCopy, m.Files[0].Method)
	must.Eq(t, smallTree, listTree(t, v.Mountpoint))
}
