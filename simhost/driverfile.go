// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	_ "embed" // the table of driver files
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// driverFile is one row of the table: a library or tool and the driver branches
// that have it.
type driverFile struct {
	Name     string     `json:"name"` // ${V} stands for the driver version
	SONAME   string     `json:"soname"`
	Needed   []string   `json:"needed"`
	Bits     []int      `json:"bits"` // default both
	From     int        `json:"from"` // first branch, 0: all before To
	To       int        `json:"to"`   // last branch, 0: all after From
	Dir      string     `json:"dir"`  // below the directory of libraries
	Links    []string   `json:"links"`
	ABITag   *[4]uint32 `json:"abi_tag"`
	Uncached bool       `json:"uncached"` // not in ld.so.cache
}

//go:embed driverfiles.json
var driverFilesText []byte

// driverFileTable is what the driver's installers bring, by branch: measured on
// the packages of some branches, the ranges between them from release notes.
var driverFileTable = mustParseTable(driverFilesText)

type fileTable struct {
	Libraries []driverFile `json:"libraries"`
	Tools     []driverFile `json:"tools"`
}

func mustParseTable(text []byte) fileTable {
	var table fileTable
	if err := json.Unmarshal(text, &table); err != nil {
		panic("simhost: table of driver files: " + err.Error()) // embedded; a test reads it
	}
	return table
}

// Where a host keeps things, below the root.
const (
	libDir64  = "usr/lib/x86_64-linux-gnu"
	libDir32  = "usr/lib/i386-linux-gnu"
	toolDir   = "usr/bin"
	cachePath = "etc/ld.so.cache"
)

// rowsOf gives the rows of one driver version, with their names completed.
func rowsOf(rows []driverFile, version string, without []string) []driverFile {
	branch := driverBranch(version)
	complete := func(s string) string { return strings.ReplaceAll(s, "${V}", version) }
	var chosen []driverFile
	for _, row := range rows {
		if slices.Contains(without, row.Name) || branch < row.From || row.To > 0 && branch > row.To {
			continue
		}
		row.Name, row.SONAME = complete(row.Name), complete(row.SONAME)
		row.Needed = slices.Clone(row.Needed)
		for i := range row.Needed {
			row.Needed[i] = complete(row.Needed[i])
		}
		if len(row.Bits) == 0 {
			row.Bits = []int{64, 32}
		}
		if !slices.Contains(without, row.Name) {
			chosen = append(chosen, row)
		}
	}
	return chosen
}

// installer writes the files of one driver version below a root and remembers
// them, so that another version can take their place.
type installer struct {
	root, version string
	// special gives the content of files that have real code, by name.
	special map[string][]byte
	written []string // paths below the root
	cache   []CacheEntry
}

func (in *installer) install(without []string) error {
	for _, row := range rowsOf(driverFileTable.Libraries, in.version, without) {
		for _, bits := range row.Bits {
			if err := in.library(row, bits); err != nil {
				return err
			}
		}
	}
	for _, row := range rowsOf(driverFileTable.Tools, in.version, without) {
		if err := in.tool(row); err != nil {
			return err
		}
	}
	return in.write(cachePath, LDCache(in.cache), 0o644)
}

func (in *installer) library(row driverFile, bits int) error {
	dir, flags := libDir64, CacheX8664
	if bits == 32 {
		dir, flags = libDir32, CacheI386
	}
	if row.Dir != "" {
		dir = filepath.Join(dir, row.Dir)
	}
	content, ok := in.special[row.Name]
	if !ok || bits == 32 {
		content = Object{Bits: bits, SONAME: row.SONAME, Needed: row.Needed, ABITag: row.ABITag}.Bytes()
	}
	file := filepath.Join(dir, row.Name)
	if err := in.write(file, content, 0o644); err != nil {
		return err
	}
	for _, link := range append([]string{row.SONAME}, row.Links...) {
		if link == "" || link == row.Name {
			continue
		}
		if err := in.link(filepath.Join(dir, link), row.Name); err != nil {
			return err
		}
	}
	if row.SONAME == "" || row.Uncached {
		return nil
	}
	in.cache = append(in.cache, CacheEntry{Key: row.SONAME, Path: "/" + filepath.Join(dir, row.SONAME), Flags: flags})
	if slices.Contains(row.Links, "libcuda.so") {
		in.cache = append(in.cache, CacheEntry{Key: "libcuda.so", Path: "/" + filepath.Join(dir, "libcuda.so"), Flags: flags})
	}
	return nil
}

func (in *installer) tool(row driverFile) error {
	content, ok := in.special[row.Name]
	if !ok {
		content = Object{Bits: 64, Needed: append(row.Needed, "libc.so.6"), ABITag: &[4]uint32{0, 2, 3, 99}, Program: true}.Bytes()
	}
	return in.write(filepath.Join(toolDir, row.Name), content, 0o755)
}

// write makes a file anew: a new inode, also where one of that name was.
func (in *installer) write(path string, content []byte, mode os.FileMode) error {
	full := filepath.Join(in.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	if err := replaceFile(full, content, mode); err != nil {
		return fmt.Errorf("driver file %q: %w", full, err)
	}
	in.written = append(in.written, path)
	return nil
}

func (in *installer) link(path, target string) error {
	full := filepath.Join(in.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	if err := os.Remove(full); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(target, full); err != nil {
		return fmt.Errorf("driver link %q: %w", full, err)
	}
	in.written = append(in.written, path)
	return nil
}
