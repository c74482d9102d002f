// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ErrNoDriverFiles means that the host has no complete set of driver files, or
// files of another version than the loaded driver.
var ErrNoDriverFiles = errors.New("no driver files")

// DriverFiles finds the files of the loaded driver (driver-files §7, steps 1 to
// 5): every library of its version, in the order of the loader cache and then of
// the directories, and its tools. It fails without a loaded driver, without its
// 64-bit libcuda, and when that belongs to another version than the kernel module.
func (h *Host) DriverFiles(ctx context.Context) (*DriverFiles, error) {
	inventory := h.Inventory(ctx)
	version := inventory.Driver.Version
	if version == "" {
		return nil, fmt.Errorf("%w: %s", ErrNoDriverFiles, inventory.Reason)
	}
	search := newFileSearch(h.root, version)
	if library := inventory.Driver.Library; library != "" {
		search.addDir(h.root.inside(filepath.Dir(library)))
	}
	search.run()
	if err := search.complete(); err != nil {
		return nil, err
	}
	return &DriverFiles{
		Version: version, Libraries: search.libraries, Binaries: h.root.binaries(), Data: h.root.dataFiles(version),
	}, nil
}

// unversioned are libraries of the driver whose file name has not the driver's
// version: NVVM of branch 470 and of the newest, the EGL platform libraries, and
// the vendor-neutral GL loaders that come with a driver.
var unversioned = []*regexp.Regexp{
	regexp.MustCompile(`^libnvidia-nvvm\.so\.4\.`),
	regexp.MustCompile(`^libnvidia-nvvm70\.so\.`),
	regexp.MustCompile(`^libnvidia-egl-[a-z0-9]+\.so\.[0-9]+\.[0-9]`),
	regexp.MustCompile(`^lib(GL|GLX|OpenGL|GLdispatch|EGL|GLESv1_CM|GLESv2)\.so\.[0-9.]+$`),
}

// fileSearch looks for the libraries of one driver version under a root.
type fileSearch struct {
	root    root
	version string

	libraries []Library
	dirs      []string        // searched beside the cache, inside the root
	seen      map[string]bool // real paths
	links     map[string][]string
	other     string // another driver version that libcuda.so.1 leads to
}

func newFileSearch(r root, version string) *fileSearch {
	return &fileSearch{root: r, version: version, seen: make(map[string]bool), links: make(map[string][]string)}
}

// addDir adds a directory to search, once.
func (s *fileSearch) addDir(dir string) {
	if !slices.Contains(s.dirs, dir) {
		s.dirs = append(s.dirs, dir)
	}
}

// run collects all candidates: those of the cache first, in its order.
func (s *fileSearch) run() {
	for _, entry := range s.root.cache() {
		s.consider(entry.path, entry.bits)
		s.addDir(filepath.Dir(entry.path))
	}
	for _, dir := range s.root.dirs() {
		s.addDir(dir)
	}
	for _, dir := range slices.Clone(s.dirs) {
		s.searchDir(dir)
	}
	for i := range s.libraries {
		library := &s.libraries[i]
		library.Links = s.linksTo(library)
	}
}

// searchDir takes what a directory has of the driver. Only one that holds files
// of this version counts; then its subdirectories may too, which hold libraries
// that the loader never looks for.
func (s *fileSearch) searchDir(dir string) {
	if !s.searchFlat(dir) {
		return
	}
	for _, sub := range []string{"vdpau", "nvidia", "tls"} {
		s.searchFlat(filepath.Join(dir, sub))
	}
}

func (s *fileSearch) searchFlat(dir string) bool {
	place, err := s.root.resolve(dir)
	if err != nil {
		return false
	}
	entries, err := os.ReadDir(place)
	if err != nil {
		return false
	}
	found := slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "lib") && strings.HasSuffix(e.Name(), ".so."+s.version)
	})
	if !found {
		return false
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, "lib") && strings.Contains(name, ".so") {
			s.noteEntry(dir, entry)
		}
	}
	return true
}

// noteEntry takes a directory entry as a library or as a link to one. Vendor
// neutral loaders are no proof of the driver, so only the cache brings them.
func (s *fileSearch) noteEntry(dir string, entry os.DirEntry) {
	path := filepath.Join(dir, entry.Name())
	if entry.Type()&os.ModeSymlink != 0 {
		place, err := s.root.regular(path)
		if err != nil {
			return
		}
		if !slices.Contains(s.links[place], entry.Name()) {
			s.links[place] = append(s.links[place], entry.Name())
		}
	}
	if !unversioned[len(unversioned)-1].MatchString(entry.Name()) {
		s.consider(path, 0)
	}
}

// consider takes a file if its real name says that it is the driver's and its
// content is a library of the expected class; bits is zero for any.
func (s *fileSearch) consider(path string, bits int) {
	place, err := s.root.regular(path)
	if err != nil || s.seen[place] {
		return
	}
	name := filepath.Base(place)
	if strings.HasPrefix(filepath.Base(path), "libcuda.so.1") && s.other == "" {
		if version := libraryVersion(place); version != "" && version != s.version {
			s.other = version
		}
	}
	if !s.belongs(name) {
		return
	}
	facts, err := readELF(place)
	if err != nil || bits != 0 && facts.bits != bits {
		return
	}
	s.seen[place] = true
	s.libraries = append(s.libraries, Library{
		Path: place, Name: name, SONAME: facts.soname, Bits: facts.bits, Needed: facts.needed, ABITag: facts.abiTag,
	})
}

// serverModules are parts of the X server, no use in a container.
var serverModules = []string{"libglx.so.", "libglxserver_nvidia.so.", "libnvidia-wfb.so.", "libnvidia-gtk"}

// belongs says whether a file name is one of this driver version's libraries.
func (s *fileSearch) belongs(name string) bool {
	for _, prefix := range serverModules {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	if strings.HasPrefix(name, "lib") && strings.HasSuffix(name, ".so."+s.version) {
		return true
	}
	return slices.ContainsFunc(unversioned, func(pattern *regexp.Regexp) bool { return pattern.MatchString(name) })
}

// linksTo are the names of the links to a library beside its soname.
func (s *fileSearch) linksTo(library *Library) []string {
	names := slices.DeleteFunc(slices.Clone(s.links[library.Path]), func(name string) bool {
		return name == library.SONAME || name == library.Name
	})
	slices.Sort(names)
	return names
}

// complete checks that the search has found a driver, and one driver only.
func (s *fileSearch) complete() error {
	has := slices.ContainsFunc(s.libraries, func(l Library) bool { return l.Bits == 64 && l.Name == "libcuda.so."+s.version })
	switch {
	case has:
		return nil
	case s.other != "":
		return fmt.Errorf("%w: driver libraries are %s, kernel module is %s: reboot or reload", ErrNoDriverFiles, s.other, s.version)
	}
	return fmt.Errorf("%w: no 64-bit libcuda.so.%s under %q; searched the loader cache and %s",
		ErrNoDriverFiles, s.version, string(s.root), strings.Join(s.dirs, " "))
}
