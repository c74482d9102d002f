// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// besidePrefix starts the names of trees that are being built or were replaced.
// They lie beside the volumes, so that a rename is all it takes.
const besidePrefix = ".beside-"

// build makes the tree of a plan beside its place and moves it there. On error
// nothing is left of it. The caller has the lock.
func (s *Store) build(p *plan) (m *Manifest, err error) {
	parent := s.parent()
	if err := makeDir(parent); err != nil {
		return nil, err
	}
	s.sweep()
	tree, err := os.MkdirTemp(parent, besidePrefix+p.version+"-")
	if err != nil {
		return nil, fmt.Errorf("build driver volume: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tree))
		}
	}()
	m, err = s.fill(tree, p)
	if err == nil {
		err = m.verify(tree)
	}
	if err == nil {
		err = s.publish(tree, m)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf(`%w; free space in %q, or move it to the driver's file system so that files can be linked`, err, s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("build driver volume %q: %w", Name(p.version), err)
	}
	return m, nil
}

// fill makes everything that the plan names, durably.
func (s *Store) fill(tree string, p *plan) (*Manifest, error) {
	m := &Manifest{
		Format: manifestFormat, Version: p.version, Capabilities: s.caps.names(), Labelled: s.cloner.label != nil,
		Files: []ManifestFile{}, Links: []ManifestLink{}, Missing: append([]string{}, p.missing...),
	}
	dirs := append([]string{"."}, p.dirs()...)
	if err := s.fillDirs(tree, dirs); err != nil {
		return nil, err
	}
	for _, f := range p.files {
		if err := s.at("file"); err != nil {
			return nil, err
		}
		made, err := s.fillFile(tree, f)
		if err != nil {
			return nil, err
		}
		m.Files = append(m.Files, made)
	}
	for _, l := range p.links {
		if err := s.at("link"); err != nil {
			return nil, err
		}
		if err := os.Symlink(l.target, filepath.Join(tree, l.name)); err != nil {
			return nil, err
		}
		m.Links = append(m.Links, ManifestLink{Name: l.name, Target: l.target})
	}
	for _, dir := range dirs {
		if err := s.at("sync"); err != nil {
			return nil, err
		}
		if err := syncDir(filepath.Join(tree, dir)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (s *Store) fillDirs(tree string, dirs []string) error {
	for _, dir := range dirs {
		if err := s.at("directory"); err != nil {
			return err
		}
		name := filepath.Join(tree, dir)
		if err := makeDir(name); err != nil {
			return err
		}
		if err := os.Chmod(name, 0o755); err != nil { // the tree itself was made with 0700
			return err
		}
		if s.cloner.label == nil {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(s.cloner.label(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// fillFile makes one file and records it as it is on disk.
func (s *Store) fillFile(tree string, f planFile) (ManifestFile, error) {
	name := filepath.Join(tree, f.name)
	var method Method
	var err error
	if f.content != nil {
		method, err = s.cloner.write(name, f.content)
	} else {
		method, err = s.cloner.place(f.source, name)
	}
	if err != nil {
		return ManifestFile{}, err
	}
	fi, err := os.Lstat(name)
	if err != nil {
		return ManifestFile{}, err
	}
	return ManifestFile{
		Name: f.name, Size: fi.Size(), Source: f.source, Capability: f.capability,
		Method: method, Mode: fi.Mode(), ModTime: fi.ModTime(),
	}, nil
}

// publish moves a finished tree to its place. The manifest goes first: until
// the tree follows, it fits nothing and so only causes another build.
func (s *Store) publish(tree string, m *Manifest) error {
	if err := s.at("manifest"); err != nil {
		return err
	}
	if err := s.writeManifest(m); err != nil {
		return err
	}
	if err := s.at("rename"); err != nil {
		return err
	}
	if err := s.swap(tree, s.tree(m.Version)); err != nil {
		return err
	}
	if err := s.at("renamed"); err != nil {
		return err
	}
	return syncDir(s.parent())
}

// swap puts a tree into place. What was there is not touched but for its name:
// containers that mounted it keep it, and sweep removes it when they are gone.
func (s *Store) swap(tree, place string) error {
	err := unix.Renameat2(unix.AT_FDCWD, tree, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE)
	if err == nil {
		s.sweep()
		return nil
	}
	if !errors.Is(err, unix.ENOENT) { // something is there, but the file system cannot exchange names
		if old := tree + ".old"; os.Rename(place, old) == nil {
			defer s.sweep()
		}
	}
	return os.Rename(tree, place)
}

// sweep removes what killed builds and replaced trees left, unless a mount uses it.
func (s *Store) sweep() {
	left, err := filepath.Glob(filepath.Join(s.parent(), besidePrefix+"*"))
	if err != nil {
		return
	}
	for _, tree := range left {
		if used, err := mounted(tree); err != nil || used {
			s.log.Debug("replaced driver volume is still in use", "path", tree, "error", err)
			continue
		}
		if err := os.RemoveAll(tree); err != nil {
			s.log.Warn("cannot remove what is left of a driver volume", "path", tree, "error", err)
		}
	}
}
