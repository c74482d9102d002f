// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// root is the root file system in which a driver is installed. Every path and
// every link target is taken relative to it, as if it were chrooted into.
type root string

// resolve follows all links of a path inside the root and gives its place on
// this machine. The path itself need not exist.
func (r root) resolve(path string) (string, error) {
	return securejoin.SecureJoin(string(r), path)
}

// inside gives the path that a resolved place has inside the root.
func (r root) inside(place string) string {
	if r == "/" {
		return place
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(place, string(r)), "/")
}

// regular resolves a path that must be a regular file.
func (r root) regular(path string) (string, error) {
	place, err := r.resolve(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(place)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "open", Path: place, Err: fs.ErrInvalid}
	}
	return place, nil
}

// system gives the place of a path of the kernel's file systems, such as
// /proc/driver/nvidia: under the root if it is there, else the machine's own.
func (r root) system(path string) string {
	place := filepath.Join(string(r), path)
	if _, err := os.Stat(place); err == nil {
		return place
	}
	return path
}

// dev is the directory of the device nodes: the root's if the driver's control
// node is there, else the machine's.
func (r root) dev() string {
	dir := filepath.Join(string(r), "dev")
	if _, err := os.Stat(filepath.Join(dir, "nvidiactl")); err == nil {
		return dir
	}
	return "/dev"
}

// kernelVersion is the version of the loaded kernel module; empty without one.
// Two places tell it, of which the second also exists for a module that was not
// built with /proc support.
func (r root) kernelVersion() string {
	if text, err := os.ReadFile(filepath.Join(r.system("/proc/driver/nvidia"), "version")); err == nil {
		if version := parseNVRM(string(text)); version != "" {
			return version
		}
	}
	text, err := os.ReadFile(r.system("/sys/module/nvidia/version"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// parseNVRM finds the version in the text of /proc/driver/nvidia/version: the
// first word of its NVRM line that is digits and dots, for the closed and the
// open module alike.
func parseNVRM(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "NVRM version:") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if isVersion(word) {
				return word
			}
		}
	}
	return ""
}

// isVersion says whether text is digits separated by single dots, at least one.
func isVersion(text string) bool {
	parts := strings.Split(text, ".")
	for _, part := range parts {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return len(parts) > 1
}
