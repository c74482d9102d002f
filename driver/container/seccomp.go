// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// maxSeccompProfile is more than any real profile needs, in bytes.
const maxSeccompProfile = 1 << 20

// securityOpts are the security_opt entries, a seccomp profile as its text, and
// the AppArmor profile.
func securityOpts(o *config.Task) ([]string, findings) {
	var f findings
	var opts []string
	for i, opt := range o.SecurityOpt {
		file, found := seccompFile(opt)
		if !found {
			opts = append(opts, opt)
			continue
		}
		profile, err := readSeccompProfile(file)
		if err != nil {
			f.option(fmt.Sprintf("security_opt[%d]", i), "%w", err)
			continue
		}
		opts = append(opts, "seccomp="+profile)
	}
	if o.AppArmorProfile != "" {
		opts = append(opts, "apparmor="+o.AppArmorProfile)
	}
	return opts, f
}

// seccompFile tells the file of a "seccomp=<file>" entry; not for the engine's
// own words for a profile.
func seccompFile(opt string) (string, bool) {
	key, value, found := strings.Cut(opt, "=")
	if !found {
		key, value, found = strings.Cut(opt, ":")
	}
	if !found || key != "seccomp" || value == "unconfined" || value == "builtin" {
		return "", false
	}
	return value, true
}

// readSeccompProfile reads a profile as compact JSON. It accepts regular files
// only and never waits, whatever the path leads to.
func readSeccompProfile(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("opening seccomp profile (%s) failed: %w; the file must be on this node", file, err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("opening seccomp profile (%s) failed: %w", file, err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("opening seccomp profile (%s) failed: not a regular file", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSeccompProfile+1))
	if err != nil {
		return "", fmt.Errorf("opening seccomp profile (%s) failed: %w", file, err)
	}
	if len(text) > maxSeccompProfile {
		return "", fmt.Errorf("opening seccomp profile (%s) failed: larger than %d bytes", file, maxSeccompProfile)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return "", fmt.Errorf("compacting json for seccomp profile (%s) failed: %w", file, err)
	}
	return compact.String(), nil
}
