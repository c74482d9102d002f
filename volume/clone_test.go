// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func inode(t testing.TB, name string) syscall.Stat_t {
	var st syscall.Stat_t
	must.NoError(t, syscall.Lstat(name, &st))
	return st
}

func TestClone(t *testing.T) {
	for _, tc := range []struct {
		title     string
		files     Files
		mode      os.FileMode
		elsewhere bool // another file system
		method    Method
		wantMode  os.FileMode
		wantErr   string
	}{
		{"link", FilesAuto, 0o755, false, MethodLink, 0o755, ""},
		{"link keeps the mode", FilesAuto, 0o444, false, MethodLink, 0o444, ""},
		{"other file system", FilesAuto, 0o755, true, MethodCopy, 0o755, ""},
		{"copy on request", FilesCopy, 0o644, false, MethodCopy, 0o644, ""},
		{"link or fail", FilesLink, 0o644, true, "", 0, "cross-device"},
		{"set-id is copied without the bit", FilesAuto, 0o755 | os.ModeSetuid, true, MethodCopy, 0o755, ""},
		{"set-id is never linked", FilesLink, 0o755 | os.ModeSetuid, false, "", 0, "set-id"},
		{"private is copied readable", FilesAuto, 0o700, true, MethodCopy, 0o755, ""},
		{"private is never linked", FilesLink, 0o600, false, "", 0, "readable"},
	} {
		t.Run(tc.title, func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "src")
			must.NoError(t, os.WriteFile(src, []byte("driver"), 0o600))
			must.NoError(t, os.Chmod(src, tc.mode))
			before := inode(t, src)
			dir := t.TempDir()
			if tc.elsewhere {
				dir = otherFileSystem(t)
				must.NoError(t, os.Mkdir(dir, 0o755))
			}
			dst := filepath.Join(dir, "dst")
			method, err := cloner{files: tc.files, link: true}.place(src, dst)
			after := inode(t, src)
			must.Eq(t, before.Mode, after.Mode)
			must.Eq(t, before.Mtim, after.Mtim)
			if tc.wantErr != "" {
				must.ErrorContains(t, err, tc.wantErr)
				_, err := os.Lstat(dst)
				must.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.method, method)
			content, err := os.ReadFile(dst)
			must.NoError(t, err)
			must.Eq(t, "driver", string(content))
			fi, err := os.Lstat(dst)
			must.NoError(t, err)
			must.Eq(t, tc.wantMode, fi.Mode())
			must.Eq(t, before.Mtim, inode(t, dst).Mtim)
			must.Eq(t, tc.method == MethodLink, inode(t, dst).Ino == before.Ino && inode(t, dst).Dev == before.Dev)
		})
	}
}

// TestCloneNeverOpensExisting: a name that is there may be a hard link to the
// driver's file (D17).
func TestCloneNeverOpensExisting(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	must.NoError(t, os.WriteFile(src, []byte("driver"), 0o644))
	must.NoError(t, os.Link(src, dst))
	_, err := cloner{files: FilesCopy}.place(src, dst)
	must.ErrorIs(t, err, os.ErrExist)
	content, err := os.ReadFile(src)
	must.NoError(t, err)
	must.Eq(t, "driver", string(content))
}

func TestCloneRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	must.NoError(t, os.Symlink("/etc/passwd", link))
	for _, src := range []string{dir, link} {
		_, err := cloner{files: FilesAuto, link: true}.place(src, filepath.Join(dir, "dst"))
		must.ErrorContains(t, err, "not a regular file")
	}
	_, err := cloner{files: FilesAuto, link: true}.place(filepath.Join(dir, "absent"), filepath.Join(dir, "dst"))
	must.ErrorIs(t, err, os.ErrNotExist)
}

// TestCopyInstead: which failures of a link leave the way of copying, wrapped as the
// os package gives them (cases VOL-01).
func TestCopyInstead(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EXDEV: true, unix.EPERM: true, unix.EACCES: true, unix.EMLINK: true, unix.EOPNOTSUPP: true, unix.ENOSYS: true, errUnfit: true,
		unix.ENOSPC: false, unix.EEXIST: false, unix.ENOENT: false, unix.EIO: false, unix.EROFS: false,
	} {
		must.Eq(t, want, copyInstead(&os.LinkError{Op: "link", Old: "a", New: "b", Err: err}), must.Sprint(err))
	}
}
