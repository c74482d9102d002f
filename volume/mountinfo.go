// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mountEntry is what a line of mountinfo tells about one mount.
type mountEntry struct {
	device string // "254:0", the file system
	root   string // which path of the file system is mounted
	point  string // where
}

// mounted says whether any process on this host has the tree, or a part of it,
// mounted somewhere: whoever made the mount (the engine, another engine, a
// person), it is in a mountinfo file. The kernel keeps the path current when
// the tree is renamed. Processes whose mounts we may not read are not counted.
func mounted(tree string) (bool, error) {
	self, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("find out whether the driver volume is mounted: %w", err)
	}
	tree, err = filepath.EvalSymlinks(tree)
	if err != nil {
		return false, fmt.Errorf("find out whether the driver volume is mounted: %w", err)
	}
	want, ok := located(tree, parseMounts(self))
	if !ok {
		return false, fmt.Errorf("find out whether %q is mounted: no file system holds it", tree)
	}
	files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		return false, fmt.Errorf("find out whether the driver volume is mounted: %w", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		if ns, err := os.Readlink(filepath.Join(filepath.Dir(file), "ns/mnt")); err == nil {
			if seen[ns] {
				continue
			}
			seen[ns] = true
		}
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process ended, or is not ours to look at
		}
		for _, m := range parseMounts(data) {
			if m.device == want.device && (m.root == want.root || strings.HasPrefix(m.root, want.root+"/")) {
				return true, nil
			}
		}
	}
	return false, nil
}

// located tells on which file system a path lies, and at which path of it. Of
// several mounts on one point the last one counts.
func located(path string, mounts []mountEntry) (mountEntry, bool) {
	var best mountEntry
	found := false
	for _, m := range mounts {
		below := m.point == path || m.point == "/" || strings.HasPrefix(path, m.point+"/")
		if below && len(m.point) >= len(best.point) {
			best, found = m, true
		}
	}
	if !found {
		return mountEntry{}, false
	}
	return mountEntry{device: best.device, root: filepath.Join(best.root, strings.TrimPrefix(path, best.point)), point: path}, true
}

// parseMounts reads a mountinfo file; lines that do not look like one are left out.
func parseMounts(data []byte) []mountEntry {
	var mounts []mountEntry
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 {
			continue
		}
		mounts = append(mounts, mountEntry{device: fields[2], root: unescapeMount(fields[3]), point: unescapeMount(fields[4])})
	}
	return mounts
}

// unescapeMount undoes the octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
