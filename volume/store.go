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
	"sort"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Host is what the store asks of a GPU host; *gpuhost.Host satisfies it.
type Host interface {
	// Inventory tells the loaded driver's version.
	Inventory(ctx context.Context) *gpuhost.Inventory
	// DriverFiles finds the files of the loaded driver.
	DriverFiles(ctx context.Context) (*gpuhost.DriverFiles, error)
}

// Volume is one driver volume on this host.
type Volume struct {
	Name       string // "nvidia_driver_352.39"
	Version    string
	Mountpoint string // absolute directory
	// Built is true when the call that returned the volume had to build it.
	Built bool
}

// ContainerLabel is the label of a container that says with which version of the
// NVIDIA driver it started, "535.104.05".
const ContainerLabel = "io.github.gpu-docker.nvidia_driver"

// MountedAs says whether a container's mount is of this volume: the volume by its
// name, or its directory or something in it.
func (v Volume) MountedAs(name, source string) bool {
	return name == v.Name || source == v.Mountpoint || strings.HasPrefix(source, v.Mountpoint+"/")
}

// Store keeps the driver volumes of one host. Safe for concurrent use, also by
// several processes on one directory.
type Store struct {
	dir    string // of all volumes
	state  string // manifests and lock
	caps   capSet
	host   Host
	cloner cloner
	log    hclog.Logger
	turn   chan struct{} // capacity 1: who builds or removes in this process
	known  manifestCache
	// step, when not nil, is called before each step of a build and can end it.
	// Tests kill the process or fill the disk there.
	step func(name string) error
}

// NewStore prepares a store; it creates nothing yet. It fails for settings that
// cannot be meant.
func NewStore(cfg Config, host Host) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	caps, err := parseCapabilities(cfg.Capabilities)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: filepath.Clean(cfg.Dir), caps: caps, host: host, log: cfg.Logger,
		cloner: cloner{files: cfg.Files, link: true},
		turn:   make(chan struct{}, 1),
	}
	s.state = filepath.Join(filepath.Dir(s.dir), "."+filepath.Base(s.dir)+".state")
	if selinuxEnforcing(cfg.enforceFile) {
		s.cloner.link = cfg.Files == FilesLink
		s.cloner.label = labelForContainers
	}
	return s, nil
}

// Get returns the volume of a name, of any version whose directory exists. It
// asks nothing of the driver. Errors are *NameError.
func (s *Store) Get(name string) (*Volume, error) {
	version, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	if !s.exists(version) {
		return nil, &NameError{Reason: reasonNotFound, Name: name}
	}
	return s.volume(version), nil
}

// List returns the volumes, in byte order of their versions.
func (s *Store) List() ([]Volume, error) {
	entries, err := os.ReadDir(s.parent())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list driver volumes: %w", err)
	}
	var volumes []Volume
	for _, e := range entries {
		if e.IsDir() && versionGrammar.MatchString(e.Name()) {
			volumes = append(volumes, *s.volume(e.Name()))
		}
	}
	sort.Slice(volumes, func(i, j int) bool { return volumes[i].Version < volumes[j].Version })
	return volumes, nil
}

func (s *Store) exists(version string) bool {
	fi, err := os.Lstat(s.tree(version))
	return err == nil && fi.IsDir()
}

func (s *Store) volume(version string) *Volume {
	return &Volume{Name: Name(version), Version: version, Mountpoint: s.tree(version)}
}

func (s *Store) parent() string             { return filepath.Join(s.dir, volumeName) }
func (s *Store) tree(version string) string { return filepath.Join(s.parent(), version) }

// at is called before each step of a build.
func (s *Store) at(step string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step)
}
