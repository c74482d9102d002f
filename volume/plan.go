// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"path"
	"sort"
)

// plan is what the tree of one driver version shall hold. Names are paths in
// the tree, with slashes.
type plan struct {
	version string
	files   []planFile // sorted by name
	links   []planLink // sorted by name
	missing []string   // what the driver or the table asks for and the host lacks
}

// planFile is one regular file of the tree.
type planFile struct {
	name       string // "lib64/libcuda.so.352.39"
	source     string // real path on the host
	capability string
	content    []byte // when not nil, written instead of source's content
}

// planLink is one symbolic link of the tree; target is relative to its place.
type planLink struct{ name, target string }

// dirs gives the directories of the tree, parents first. bin, lib and lib64 are
// always there (VF-1).
func (p *plan) dirs() []string {
	set := map[string]bool{"bin": true, "lib": true, "lib64": true}
	add := func(name string) {
		for dir := path.Dir(name); dir != "." && !set[dir]; dir = path.Dir(dir) {
			set[dir] = true
		}
	}
	for _, f := range p.files {
		add(f.name)
	}
	for _, l := range p.links {
		add(l.name)
	}
	dirs := make([]string, 0, len(set))
	for dir := range set {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	return dirs
}

// sort puts files and links into the order of their names.
func (p *plan) sort() {
	sort.Slice(p.files, func(i, j int) bool { return p.files[i].name < p.files[j].name })
	sort.Slice(p.links, func(i, j int) bool { return p.links[i].name < p.links[j].name })
	sort.Strings(p.missing)
}
