// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// fixtureFiles is a golden driver-files.json: the files of a host.
type fixtureFiles struct {
	DriverVersion string `json:"driver_version"`
	Path          string `json:"path"`
	Files         []fixtureFile
	LDCache       [][3]string
	Scenarios     []struct {
		Name    string
		Changes []struct {
			Op    string
			File  fixtureFile
			Cache *[3]string
		}
	}
}

type fixtureFile struct {
	Path, Kind, Target string
	SONAME             string
	Needed             []string
	ABITag             *[4]uint32 `json:"abi_tag"`
}

func readFixture(t testing.TB, host string) *fixtureFiles {
	data, err := os.ReadFile(filepath.Join("testdata/golden", host, "driver-files.json"))
	must.NoError(t, err)
	f := &fixtureFiles{}
	must.NoError(t, json.Unmarshal(data, f))
	return f
}

// apply makes the changes of a scenario.
func (f *fixtureFiles) apply(scenario string) {
	for _, s := range f.Scenarios {
		if s.Name != scenario {
			continue
		}
		for _, c := range s.Changes {
			if c.Op == "add" {
				f.Files = append(f.Files, c.File)
			}
			for i := range f.Files {
				if c.Op == "replace" && f.Files[i].Path == c.File.Path {
					f.Files[i] = c.File
				}
			}
			if c.Cache != nil {
				f.LDCache = append(f.LDCache, *c.Cache)
			}
		}
	}
}

// write makes the files below root.
func (f *fixtureFiles) write(t testing.TB, root string) {
	for _, file := range f.Files {
		name := filepath.Join(root, file.Path)
		must.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		spec := elfSpec{bits: 64, soname: file.SONAME, needed: file.Needed, abiTag: file.ABITag}
		switch file.Kind {
		case "symlink":
			target := file.Target
			if filepath.IsAbs(target) {
				target = filepath.Join(root, target)
			}
			must.NoError(t, os.Symlink(target, name))
			continue
		case "script":
			must.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\nexit 0\n"), 0o755))
			continue
		case "elf32":
			spec.bits = 32
		}
		must.NoError(t, os.WriteFile(name, spec.bytes(), 0o755))
	}
}

// discover does for the fixture what gpuhost does for a host: every real file
// of the loader cache once, in its order, and the tools on PATH.
func (f *fixtureFiles) discover(t testing.TB, root string) *gpuhost.DriverFiles {
	d := &gpuhost.DriverFiles{Version: f.DriverVersion}
	seen := map[string]bool{}
	for _, entry := range f.LDCache {
		real, err := filepath.EvalSymlinks(filepath.Join(root, entry[1]))
		if err != nil || entry[2] == "aarch64" || seen[real] {
			continue
		}
		seen[real] = true
		if l, ok := readLibrary(t, real); ok {
			d.Libraries = append(d.Libraries, l)
		}
	}
	for _, name := range []string{"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-modprobe", "nvidia-settings", "nvidia-xconfig"} {
		if real, err := filepath.EvalSymlinks(filepath.Join(root, f.Path, name)); err == nil {
			d.Binaries = append(d.Binaries, gpuhost.Binary{Path: real, Name: name})
		}
	}
	return d
}

func readLibrary(t testing.TB, path string) (gpuhost.Library, bool) {
	f, err := elf.Open(path)
	if err != nil {
		return gpuhost.Library{}, false
	}
	l := gpuhost.Library{Path: path, Name: filepath.Base(path), Bits: 64}
	if f.Class == elf.ELFCLASS32 {
		l.Bits = 32
	}
	if soname, err := f.DynString(elf.DT_SONAME); err == nil && len(soname) > 0 {
		l.SONAME = soname[0]
	}
	l.Needed, err = f.ImportedLibraries()
	must.NoError(t, err)
	if s := f.Section(".note.ABI-tag"); s != nil {
		note, err := s.Data()
		must.NoError(t, err)
		l.ABITag = &[4]uint32{}
		for i := range l.ABITag {
			l.ABITag[i] = binary.LittleEndian.Uint32(note[16+4*i:])
		}
	}
	must.NoError(t, f.Close())
	return l, true
}

// fakeHost is a host whose facts a test sets.
type fakeHost struct {
	driver gpuhost.Driver
	reason string
	files  *gpuhost.DriverFiles
	err    error
}

func (h *fakeHost) Inventory(context.Context) *gpuhost.Inventory {
	return &gpuhost.Inventory{Driver: h.driver, Reason: h.reason}
}

func (h *fakeHost) DriverFiles(context.Context) (*gpuhost.DriverFiles, error) { return h.files, h.err }

// hostOf makes the files of a golden host below root.
func hostOf(t testing.TB, root, host, scenario string) *fakeHost {
	f := readFixture(t, host)
	f.apply(scenario)
	f.write(t, root)
	return &fakeHost{driver: gpuhost.Driver{Version: f.DriverVersion}, files: f.discover(t, root)}
}

// k80 is the golden host that most tests use.
const (
	k80        = "k80x4-352.39"
	k80Version = "352.39"
)

// newStore makes a store on a fresh directory.
func newStore(t testing.TB, cfg Config, host Host) *Store {
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "volumes")
	}
	s, err := NewStore(cfg, host)
	must.NoError(t, err)
	return s
}
