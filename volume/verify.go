// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// verify compares a tree with its manifest, without reading contents: kinds,
// sizes, modes, times, link targets, and that nothing is missing or beside it.
// Nil when the tree is exactly the manifest's.
func (m *Manifest) verify(tree string) error {
	want := m.entries()
	seen := 0
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path[len(tree):], "/")
		check, ok := want[name]
		if !ok {
			return fmt.Errorf("%q does not belong there", path)
		}
		seen++
		return check(path, d)
	})
	if err != nil {
		return fmt.Errorf("driver volume is damaged: %w", err)
	}
	if seen != len(want) {
		return fmt.Errorf("driver volume is damaged: %d of its %d entries are missing in %q", len(want)-seen, len(want), tree)
	}
	return nil
}

// check says what is wrong with one entry of a tree.
type check func(path string, d fs.DirEntry) error

// entries gives a check for each path that the tree must have; the tree itself
// is the empty one.
func (m *Manifest) entries() map[string]check {
	want := map[string]check{"": checkDir}
	p := plan{}
	for i := range m.Files {
		f := &m.Files[i]
		p.files = append(p.files, planFile{name: f.Name})
		want[f.Name] = f.check
	}
	for i := range m.Links {
		l := &m.Links[i]
		p.links = append(p.links, planLink{name: l.Name})
		want[l.Name] = l.check
	}
	for _, dir := range p.dirs() {
		want[dir] = checkDir
	}
	return want
}

func checkDir(path string, d fs.DirEntry) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	if !fi.IsDir() || fi.Mode().Perm() != 0o755 {
		return fmt.Errorf("%q is %v, not a directory of mode 0755", path, fi.Mode())
	}
	return nil
}

func (f *ManifestFile) check(path string, d fs.DirEntry) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case fi.Mode() != f.Mode:
		return fmt.Errorf("%q is %v, not %v", path, fi.Mode(), f.Mode)
	case fi.Size() != f.Size:
		return fmt.Errorf("%q has %d bytes, not %d", path, fi.Size(), f.Size)
	case !fi.ModTime().Equal(f.ModTime):
		return fmt.Errorf("%q was changed at %v", path, fi.ModTime())
	}
	return nil
}

func (l *ManifestLink) check(path string, _ fs.DirEntry) error {
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	if target != l.Target {
		return fmt.Errorf("%q leads to %q, not %q", path, target, l.Target)
	}
	return nil
}
