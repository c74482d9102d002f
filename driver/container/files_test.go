// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
)

// readPlain reads a file that must be one itself.
func readPlain(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Lstat(name)
	must.NoError(t, err)
	must.True(t, info.Mode().IsRegular())
	must.Eq(t, fs.FileMode(0o644), info.Mode().Perm())
	text, err := os.ReadFile(name)
	must.NoError(t, err)
	return string(text)
}

// onlyEntries fails on left-over temporary files.
func onlyEntries(t *testing.T, dir string, want int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	must.Len(t, want, entries)
}

func TestWriteFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "web"), 0o755))
	r := &Request{Files: []File{{Dir: dir, Name: "hosts", Content: "first", Keep: true}, {Dir: dir, Name: "web/resolv.conf", Content: "first"}}}
	must.NoError(t, r.WriteFiles())
	must.Eq(t, "first", readPlain(t, filepath.Join(dir, "hosts")))
	must.Eq(t, "first", readPlain(t, filepath.Join(dir, "web/resolv.conf")))

	r.Files[0].Content, r.Files[1].Content = "second", "second"
	must.NoError(t, r.WriteFiles())
	must.Eq(t, "first", readPlain(t, filepath.Join(dir, "hosts")))
	must.Eq(t, "second", readPlain(t, filepath.Join(dir, "web/resolv.conf")))
	onlyEntries(t, dir, 2)
	onlyEntries(t, filepath.Join(dir, "web"), 1)
}

// TestWriteFiles_Links: a task that plants links gets nothing written through them.
func TestWriteFiles_Links(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("keep %t", keep), func(t *testing.T) {
			dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
			must.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
			must.NoError(t, os.Symlink(victim, filepath.Join(dir, "hosts")))
			r := &Request{Files: []File{{Dir: dir, Name: "hosts", Content: "new", Keep: keep}}}
			must.NoError(t, r.WriteFiles())
			must.Eq(t, "new", readPlain(t, filepath.Join(dir, "hosts")))
			text, err := os.ReadFile(victim)
			must.NoError(t, err)
			must.Eq(t, "precious", string(text))
		})
	}
	dir, outside := t.TempDir(), t.TempDir()
	must.NoError(t, os.Symlink(outside, filepath.Join(dir, "web")))
	r := &Request{Files: []File{{Dir: dir, Name: "web/resolv.conf", Content: "new"}}}
	must.ErrorContains(t, r.WriteFiles(), `file "web/resolv.conf" of the allocation`)
	onlyEntries(t, outside, 0)
}

func TestWriteFiles_NoDirectory(t *testing.T) {
	t.Parallel()
	r := &Request{Files: []File{{Dir: filepath.Join(t.TempDir(), "gone"), Name: "hosts"}}}
	must.ErrorIs(t, r.WriteFiles(), fs.ErrNotExist)
}

// TestWriteFiles_AtOnce: of tasks that start together the first one's file stays whole.
func TestWriteFiles_AtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			r := &Request{Files: []File{{Dir: dir, Name: "hosts", Content: fmt.Sprintf("task %02d", i), Keep: true}}}
			errs[i] = r.WriteFiles()
		})
	}
	wg.Wait()
	for _, err := range errs {
		must.NoError(t, err)
	}
	must.Eq(t, len("task 00"), len(readPlain(t, filepath.Join(dir, "hosts"))))
	onlyEntries(t, dir, 1)
}
