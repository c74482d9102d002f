// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// nvmlName is the name under which every driver installs its NVML library.
const nvmlName = "libnvidia-ml.so.1"

// cudaName is the same for the CUDA driver library.
const cudaName = "libcuda.so.1"

// libraryDirs are where drivers put their libraries beside what the loader cache
// names (driver-files §3 and §7), below the driver root.
var libraryDirs = []string{
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/usr/lib/powerpc64le-linux-gnu", "/usr/lib/i386-linux-gnu", "/usr/lib", "/usr/lib32",
	"/usr/lib64/nvidia", "/usr/lib/nvidia",
	"/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib/aarch64-linux-gnu/nvidia/current",
	"/usr/lib/i386-linux-gnu/nvidia/current", "/usr/lib/nvidia/current",
	"/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
	"/run/opengl-driver/lib", "/run/opengl-driver-32/lib",
	"/home/kubernetes/bin/nvidia/lib64", "/opt/lib64", "/var/lib/nvidia/lib64", "/usr/local/nvidia/lib64",
}

// libraryGlobs are the directories whose name has the driver's branch in it.
var libraryGlobs = []string{"/usr/lib/nvidia-[0-9]*", "/usr/lib32/nvidia-[0-9]*"}

var errNoLibraryFile = errors.New("not found")

// dirs are the library directories that exist, as paths inside the root.
func (r root) dirs() []string {
	dirs := append([]string(nil), libraryDirs...)
	for _, glob := range libraryGlobs {
		found, err := filepath.Glob(filepath.Join(string(r), glob))
		if err != nil {
			continue // the patterns are constants
		}
		for _, place := range found {
			dirs = append(dirs, r.inside(place))
		}
	}
	return dirs
}

// cache reads the loader cache of the root; without a usable one it is empty.
func (r root) cache() []cacheEntry {
	place, err := r.regular("/etc/ld.so.cache")
	if err != nil {
		return nil
	}
	data, err := os.ReadFile(place)
	if err != nil {
		return nil
	}
	entries, err := parseLDCache(data)
	if err != nil {
		return nil
	}
	return entries
}

// findLibrary finds a 64-bit library by its soname: the path inside the root,
// links not followed, so that an upgrade shows when they change.
func (r root) findLibrary(soname string) (string, error) {
	for _, entry := range r.cache() {
		if entry.soname == soname && entry.bits == 64 {
			if _, err := r.regular(entry.path); err == nil {
				return entry.path, nil
			}
		}
	}
	for _, dir := range r.dirs() {
		path := filepath.Join(dir, soname)
		place, err := r.regular(path)
		if err != nil {
			continue
		}
		if facts, err := readELF(place); err != nil || facts.bits != 64 {
			continue
		}
		return path, nil
	}
	return "", fmt.Errorf("%s: %w under %q", soname, errNoLibraryFile, string(r))
}

// fileID tells one file from another that took its place. The inode's change time
// is no part of it: a driver volume's hard links change that too.
type fileID struct {
	place string // with all links resolved
	dev   uint64
	ino   uint64
	size  int64
	mtime int64
}

func identify(place string) fileID {
	info, err := os.Stat(place)
	if err != nil {
		return fileID{}
	}
	id := fileID{place: place, size: info.Size(), mtime: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = stat.Dev, stat.Ino
	}
	return id
}

// nvmlPlace is the NVML library now: its file and how it is named. The path may
// be a bare name, which the system's loader then searches.
func (h *Host) nvmlPlace() (path string, id fileID, err error) {
	if h.cfg.NVMLLibrary != "" {
		id = identify(h.cfg.NVMLLibrary)
		if id == (fileID{}) {
			return "", id, fmt.Errorf("NVML library %q: %w; correct \"nvml_library\"", h.cfg.NVMLLibrary, errNoLibraryFile)
		}
		return h.cfg.NVMLLibrary, id, nil
	}
	if place, err := h.root.regular(h.nvmlPath); h.nvmlPath != "" && err == nil {
		return place, identify(place), nil
	}
	inside, err := h.root.findLibrary(nvmlName)
	if err != nil {
		return "", id, err
	}
	h.nvmlPath = inside
	place, err := h.root.regular(inside)
	return place, identify(place), err
}

// libraryVersion is the driver version in the name of a driver's library,
// "535.104.05" of libcuda.so.535.104.05; empty without one.
func libraryVersion(place string) string {
	_, version, _ := strings.Cut(filepath.Base(place), ".so.")
	if !isVersion(version) {
		return ""
	}
	return version
}
