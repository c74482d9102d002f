// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Ensure returns the volume of the loaded driver, building it first when it is
// absent, damaged, or lacks a wanted capability. Errors: ErrNoDriver,
// ErrMismatch, or what went wrong with which file.
func (s *Store) Ensure(ctx context.Context) (*Volume, error) {
	version, err := s.loadedVersion(ctx)
	if err != nil {
		return nil, err
	}
	return s.ensure(ctx, version)
}

func (s *Store) ensure(ctx context.Context, version string) (*Volume, error) {
	if s.intact(version) == nil {
		return s.volume(version), nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	damage := s.intact(version)
	if damage == nil { // somebody else built it meanwhile
		return s.volume(version), nil
	}
	p, err := s.plan(ctx, version)
	if err != nil {
		return nil, err
	}
	if s.adopt(p) {
		s.log.Info("driver volume of an earlier installation is complete", "volume", Name(version))
		return s.volume(version), nil
	}
	if s.exists(version) {
		s.log.Warn("driver volume is rebuilt", "volume", Name(version), "reason", damage)
	}
	m, err := s.build(p)
	if err != nil {
		return nil, err
	}
	s.log.Info("driver volume built", "volume", Name(version), "files", len(m.Files), "bytes", m.Bytes(), "missing", m.Missing)
	if lacking := m.lacking(); len(lacking) > 0 {
		s.log.Warn("the driver's installation lacks files; programs in containers that need them fail", "volume", Name(version), "missing", lacking)
	}
	v := s.volume(version)
	v.Built = true
	return v, nil
}

// loadedVersion asks the host, and makes sure that the answer can be a directory's name.
func (s *Store) loadedVersion(ctx context.Context) (string, error) {
	inv := s.host.Inventory(ctx)
	d := inv.Driver
	switch {
	case d.Version == "":
		if inv.Reason != "" {
			return "", fmt.Errorf("%w: %s", ErrNoDriver, inv.Reason)
		}
		return "", ErrNoDriver
	case d.KernelVersion != "" && d.KernelVersion != d.Version:
		return "", fmt.Errorf("%w: libraries are %q, kernel module is %q; reboot, or reload the nvidia modules", ErrMismatch, d.Version, d.KernelVersion)
	case !versionGrammar.MatchString(d.Version):
		return "", fmt.Errorf("driver version %q is not digits and dots, so it cannot name a volume", d.Version)
	}
	return d.Version, nil
}

// plan chooses the files of a version.
func (s *Store) plan(ctx context.Context, version string) (*plan, error) {
	files, err := s.host.DriverFiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the driver's files: %w", err)
	}
	if files.Version != version {
		return nil, fmt.Errorf("%w: files are of %q, loaded is %q; try again", ErrMismatch, files.Version, version)
	}
	return choose(files, s.caps, sameContent)
}

// intact is nil when the volume of a version is there, undamaged, and holds
// the wanted capabilities; else it tells what is wrong.
func (s *Store) intact(version string) error {
	m, err := s.Manifest(version)
	if err != nil {
		return err
	}
	have, err := parseCapabilities(m.Capabilities)
	if err != nil {
		return err
	}
	if s.caps&^have != 0 {
		return fmt.Errorf("driver volume lacks the capabilities %q", (s.caps &^ have).names())
	}
	if err := s.cloner.wouldMake(m); err != nil {
		return err
	}
	return m.verify(s.tree(version))
}

// wouldMake is nil when the files of a volume are made as this host wants them.
// That changes while a volume lives: an option is set, SELinux becomes enforcing.
func (c cloner) wouldMake(m *Manifest) error {
	switch {
	case m.Linked() && c.files == FilesCopy:
		return errors.New(`driver volume has hard links although volume_files is "copy"`)
	case m.Linked() && !c.links():
		return errors.New("driver volume has hard links, which containers may not read while SELinux is enforcing")
	case !m.Labelled && c.label != nil:
		return errors.New("driver volume has no SELinux labels, so containers may not read it")
	}
	return nil
}

// adopt takes over a tree without a manifest, which nvidia-docker v1 or a
// restored backup left, if it is what we would build: without labels and of hard
// links, which alone prove that the content is the driver's.
func (s *Store) adopt(p *plan) bool {
	if !s.cloner.links() || s.cloner.label != nil {
		return false
	}
	if _, err := s.Manifest(p.version); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	m := &Manifest{Format: manifestFormat, Version: p.version, Capabilities: s.caps.names(), Files: []ManifestFile{}, Links: []ManifestLink{}, Missing: append([]string{}, p.missing...)}
	for _, f := range p.files {
		source, err := os.Stat(f.source)
		tree, err2 := os.Lstat(filepath.Join(s.tree(p.version), f.name))
		if err != nil || err2 != nil || !os.SameFile(source, tree) {
			return false
		}
		m.Files = append(m.Files, ManifestFile{Name: f.name, Size: tree.Size(), Source: f.source, Capability: f.capability, Method: MethodLink, Mode: tree.Mode(), ModTime: tree.ModTime()})
	}
	for _, l := range p.links {
		m.Links = append(m.Links, ManifestLink{Name: l.name, Target: l.target})
	}
	return m.verify(s.tree(p.version)) == nil && s.writeManifest(m) == nil
}
