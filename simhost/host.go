// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Options say which host Up makes.
type Options struct {
	// Root is the directory to make; it must not exist or be empty.
	Root string
	// Profile is the name of a built-in profile or the path of a file.
	Profile string
	// Scenario is one of the profile's variations; empty for none.
	Scenario string
}

// Host is one simulated host on this machine. Safe for concurrent use, also by
// several processes.
type Host struct {
	root string
}

var (
	// ErrNotAHost is wrapped by errors about a directory without a simulated host.
	ErrNotAHost = errors.New("no simulated host")
	// ErrNotEmpty is wrapped by the error of Up about a directory in use.
	ErrNotEmpty = errors.New("the directory is not empty")
)

// Up makes a simulated host. The first one on a machine takes some seconds, in
// which the libraries are compiled. What was begun is removed when it fails.
func Up(ctx context.Context, o Options) (*Host, error) {
	p, err := LoadProfile(o.Profile, o.Scenario)
	if err != nil {
		return nil, err
	}
	root, err := freshRoot(o.Root)
	if err != nil {
		return nil, err
	}
	made, err := compiled(ctx)
	if err != nil {
		return nil, err
	}
	if err := build(root, made, p); err != nil {
		return nil, errors.Join(fmt.Errorf("simulated host %q: %w", root, err), removeRoot(root))
	}
	return &Host{root: root}, nil
}

// freshRoot makes the directory of a new host and returns its real path.
func freshRoot(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("simulated host: no directory given; name one, for example \"/tmp/gpuhost\"")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("simulated host %q: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("simulated host %q: %w", dir, err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("simulated host %q: %w; name another one, or end the host in it with \"simhost down --root %s\"", dir, ErrNotEmpty, dir)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

func build(root, made string, p *Profile) error {
	s, err := p.state()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(stateDir(root), 0o755); err != nil {
		return err
	}
	if err := saveProfile(root, p); err != nil {
		return err
	}
	if err := newCounters(root); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(stateDir(root), "events"), nil, 0o644); err != nil {
		return err
	}
	if err := installDriver(root, made, p, s); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		return err
	}
	if err := pciFiles(root, p, s); err != nil {
		return err
	}
	if s["driver_loaded"] != "" {
		if err := kernelFiles(root, p, s); err != nil {
			return err
		}
	}
	return writeState(root, s) // last: it marks the host as complete
}

// installDriver writes the libraries and tools of the version that the state has.
func installDriver(root, made string, p *Profile, s state) error {
	version := s["driver_version"]
	inventory := state{"driver_loaded": "1"}
	for k, v := range s {
		inventory[k] = v
	}
	in := &installer{root: root, version: version, special: map[string][]byte{}}
	for file, name := range map[string]string{nvmlProduct.name: nvmlProduct.name + "." + version, cudaProduct.name: cudaProduct.name + "." + version} {
		library, err := os.ReadFile(filepath.Join(made, file))
		if err != nil {
			return err
		}
		if err := fillBlob(library, stateDir(root), version, inventory.text()); err != nil {
			return err
		}
		versioned := *p
		versioned.DriverVersion = version
		hideSymbols(library, versioned.missingSymbols())
		in.special[name] = library
	}
	smi, err := os.ReadFile(filepath.Join(made, smiProduct.name))
	if err != nil {
		return err
	}
	in.special[smiProduct.name] = smi
	if err := in.installFrom(p); err != nil {
		return err
	}
	manifest, err := json.MarshalIndent(in.written, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(stateDir(root), "files.json"), manifest, 0o644)
}

// installFrom takes the profile's own list of files or the table.
func (in *installer) installFrom(p *Profile) error {
	if p.DriverFiles == "" {
		return in.install(p.WithoutFiles)
	}
	list, err := readDriverList(p.DriverFiles, in.version)
	if err != nil {
		return err
	}
	return in.installList(list)
}

// saveProfile keeps the profile, and a copy of its list of driver files, for
// later changes of the host.
func saveProfile(root string, p *Profile) error {
	saved := *p
	if p.DriverFiles != "" {
		list, err := os.ReadFile(p.DriverFiles)
		if err != nil {
			return err
		}
		saved.DriverFiles = "driver-files.json"
		if err := replaceFile(filepath.Join(stateDir(root), saved.DriverFiles), list, 0o644); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(saved, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(stateDir(root), "profile.json"), text, 0o644)
}

// Open finds a host that is up.
func Open(root string) (*Host, error) {
	absolute, err := filepath.Abs(root)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("simulated host %q: %w", root, err)
	}
	if _, statErr := os.Stat(filepath.Join(stateDir(absolute), "state")); err != nil || statErr != nil {
		return nil, fmt.Errorf("%w in %q; make one with \"simhost up --root %s --profile NAME\"", ErrNotAHost, root, root)
	}
	return &Host{root: absolute}, nil
}

// Root is the driver root: absolute, links resolved.
func (h *Host) Root() string { return h.root }

// Profile is the profile that the host was made from.
func (h *Host) Profile() (*Profile, error) {
	return LoadProfile(filepath.Join(stateDir(h.root), "profile.json"), "")
}

// Down removes the host and everything in its directory. Processes that have its
// libraries open keep them and see that the driver is gone.
func (h *Host) Down() error {
	if _, err := Open(h.root); err != nil {
		return err
	}
	if err := removeRoot(h.root); err != nil {
		return fmt.Errorf("simulated host %q: %w", h.root, err)
	}
	return nil
}

// removeRoot removes a root, the mark of a host first, and tells the processes
// that have its libraries open.
func removeRoot(root string) error {
	err := removeIfThere(filepath.Join(stateDir(root), "state"))
	if announceErr := announceChange(root); !errors.Is(announceErr, fs.ErrNotExist) {
		err = errors.Join(err, announceErr)
	}
	return errors.Join(err, os.RemoveAll(root))
}
