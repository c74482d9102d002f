// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// driverList is a list of driver files of one's own instead of the table: every
// file with its place and properties, and the lines of ld.so.cache.
type driverList struct {
	Version string       `json:"driver_version"` // that the names contain
	Files   []listedFile `json:"files"`
	Cache   [][3]string  `json:"ldcache"` // key, path, architecture
}

type listedFile struct {
	Path   string     `json:"path"`
	Kind   string     `json:"kind"` // elf64, elf32, symlink, script
	SONAME string     `json:"soname"`
	Needed []string   `json:"needed"`
	ABITag *[4]uint32 `json:"abi_tag"`
	Target string     `json:"target"` // of a symlink
}

// cacheFlags are the flags of ld.so.cache by the name of the architecture.
var cacheFlags = map[string]uint32{"x86-64": CacheX8664, "i386": CacheI386, "aarch64": 0x0a03, "ppc64le": 0x0503, "x32": 0x0803}

// readDriverList reads a list and lets its names be those of another version.
func readDriverList(path, version string) (*driverList, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("list of driver files: %w", err)
	}
	var named struct {
		Version string `json:"driver_version"`
	}
	if err := json.Unmarshal(text, &named); err != nil {
		return nil, fmt.Errorf("list of driver files %q: %w", path, err)
	}
	if named.Version != "" {
		text = []byte(strings.ReplaceAll(string(text), named.Version, version))
	}
	list := new(driverList)
	if err := json.Unmarshal(text, list); err != nil {
		return nil, fmt.Errorf("list of driver files %q: %w", path, err)
	}
	return list, list.validate(path)
}

func (l *driverList) validate(path string) error {
	for _, f := range l.Files {
		switch {
		case !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path:
			return fmt.Errorf("list of driver files %q: path %q must be absolute and clean", path, f.Path)
		case f.Kind != "elf64" && f.Kind != "elf32" && f.Kind != "symlink" && f.Kind != "script":
			return fmt.Errorf("list of driver files %q: %q has kind %q; use elf64, elf32, symlink or script", path, f.Path, f.Kind)
		}
	}
	for _, entry := range l.Cache {
		if _, ok := cacheFlags[entry[2]]; !ok {
			return fmt.Errorf("list of driver files %q: unknown architecture %q of %q; use x86-64, i386, aarch64, ppc64le or x32", path, entry[2], entry[0])
		}
	}
	return nil
}

func (in *installer) installList(l *driverList) error {
	for _, f := range l.Files {
		if err := in.listed(f); err != nil {
			return err
		}
	}
	for _, entry := range l.Cache {
		in.cache = append(in.cache, CacheEntry{Key: entry[0], Path: entry[1], Flags: cacheFlags[entry[2]]})
	}
	return in.write(cachePath, LDCache(in.cache), 0o644)
}

func (in *installer) listed(f listedFile) error {
	path := strings.TrimPrefix(f.Path, "/")
	name := filepath.Base(path)
	program := !strings.Contains(name, ".so")
	mode := os.FileMode(0o644)
	if program {
		mode = 0o755
	}
	if content, ok := in.special[name]; ok && f.Kind == "elf64" {
		return in.write(path, content, mode)
	}
	switch f.Kind {
	case "symlink":
		return in.link(path, f.Target)
	case "script":
		return in.write(path, []byte("#!/bin/sh\n"), mode)
	default:
		bits := 64
		if f.Kind == "elf32" {
			bits = 32
		}
		return in.write(path, Object{Bits: bits, SONAME: f.SONAME, Needed: f.Needed, ABITag: f.ABITag, Program: program}.Bytes(), mode)
	}
}
