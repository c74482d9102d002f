// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// manifestFormat changes when an older manifest can no longer be understood.
const manifestFormat = 1

// Manifest records what one volume holds and where it came from.
type Manifest struct {
	Format       int            `json:"format"`
	Version      string         `json:"version"`
	Capabilities []string       `json:"capabilities"`
	Labelled     bool           `json:"labelled,omitempty"` // with the label that SELinux lets containers read
	Files        []ManifestFile `json:"files"`
	Links        []ManifestLink `json:"links"`
	Missing      []string       `json:"missing"` // what the driver would have but the host lacks
}

// ManifestFile is one regular file of a volume.
type ManifestFile struct {
	Name       string      `json:"name"` // path in the tree
	Size       int64       `json:"size"` // bytes
	Source     string      `json:"source"`
	Capability string      `json:"capability"`
	Method     Method      `json:"method"`
	Mode       os.FileMode `json:"mode"`
	ModTime    time.Time   `json:"mod_time"`
}

// ManifestLink is one symbolic link of a volume.
type ManifestLink struct {
	Name   string `json:"name"`
	Target string `json:"target"`
}

// Linked says whether a file of the volume is a hard link to the host's own.
// Such a volume must not be relabelled (mount option z or Z): the label would
// change on the host's driver files.
func (m *Manifest) Linked() bool {
	for _, f := range m.Files {
		if f.Method == MethodLink {
			return true
		}
	}
	return false
}

// lacking is what is missing and worth a warning: nearly nobody needs the 32-bit
// libraries, of which packages often install a part.
func (m *Manifest) lacking() []string {
	return slices.DeleteFunc(slices.Clone(m.Missing), func(name string) bool { return strings.HasPrefix(name, "lib/") })
}

// Bytes is the size of all files, whether or not they take space of their own.
func (m *Manifest) Bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Manifest reads the record of a version; an error that is os.ErrNotExist when
// there is none, as for a volume that nvidia-docker v1 made. Callers share the
// result and must not change it.
func (s *Store) Manifest(version string) (*Manifest, error) {
	name := s.manifestPath(version)
	fi, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if m := s.known.get(version, fi); m != nil {
		return m, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("manifest %q: %w", name, err)
	}
	if m.Format != manifestFormat || m.Version != version {
		return nil, fmt.Errorf("manifest %q is of format %d for version %q, not %d for %q", name, m.Format, m.Version, manifestFormat, version)
	}
	s.known.put(fi, m)
	return m, nil
}

// manifestCache keeps the manifest that was read last, since nearly every call
// is about one version. A manifest is never written in place, so a new one is a
// new file.
type manifestCache struct {
	mu   sync.Mutex // guards everything below
	file os.FileInfo
	m    *Manifest
}

// get gives the manifest of a version if it is still the one in the file.
func (c *manifestCache) get(version string, fi os.FileInfo) *Manifest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.m.Version != version || !os.SameFile(c.file, fi) || !c.file.ModTime().Equal(fi.ModTime()) {
		return nil
	}
	return c.m
}

func (c *manifestCache) put(fi os.FileInfo, m *Manifest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.file, c.m = fi, m
}

// writeManifest puts the record into its place at once and durably.
func (s *Store) writeManifest(m *Manifest) error {
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	name := s.manifestPath(m.Version)
	temp, err := os.CreateTemp(s.state, m.Version+".*.tmp")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	_, err = temp.Write(append(data, '\n'))
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write manifest %q: %w", name, err), os.Remove(temp.Name()))
	}
	return syncDir(s.state)
}

func (s *Store) manifestPath(version string) string {
	return filepath.Join(s.state, version+".json")
}
