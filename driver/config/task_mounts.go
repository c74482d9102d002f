// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"path"
	"strings"
)

// propagations are the ways in which mounts below a bind mount travel.
var propagations = []string{"private", "rprivate", "shared", "rshared", "slave", "rslave"}

// AllMounts are the entries of mount, then those of mounts.
func (t *Task) AllMounts() []Mount {
	all := make([]Mount, 0, len(t.Mount)+len(t.Mounts))
	return append(append(all, t.Mount...), t.Mounts...)
}

func (t *Task) validateMounts(f *faults) {
	for i := range t.Mount {
		t.Mount[i].validate(f, fmt.Sprintf("mount[%d]", i))
	}
	for i := range t.Mounts {
		t.Mounts[i].validate(f, fmt.Sprintf("mounts[%d]", i))
	}
	for i, v := range t.Volumes {
		if _, err := ParseVolume(v); err != nil {
			f.add(fmt.Sprintf("volumes[%d]", i), "%v", err)
		}
	}
	for i, v := range t.Tmpfs {
		if target, _, _ := strings.Cut(v, ":"); !path.IsAbs(target) {
			f.add(fmt.Sprintf("tmpfs[%d]", i), "%q must start with an absolute path; use for example %q", v, "/scratch:size=64m")
		}
	}
}

func (m *Mount) validate(f *faults, option string) {
	if m.Type == "" {
		m.Type = MountVolume
	}
	switch m.Type {
	case MountBind, MountVolume:
	case MountTmpfs:
		if m.Source != "" {
			f.add(option+".source", "invalid source, must be \"\" for tmpfs: %q", m.Source)
		}
	default:
		f.add(option+".type", "invalid mount type: %q; use one of %s", m.Type,
			quotedList([]string{MountBind, MountVolume, MountTmpfs}))
	}
	if !path.IsAbs(m.Target) {
		f.absolute(option+".target", m.Target, "/data")
	}
	if p := m.BindOptions.Propagation; p != "" {
		f.oneOf(option+".bind_options.propagation", p, propagations...)
	}
	if m.TmpfsOptions.SizeBytes < 0 {
		f.add(option+".tmpfs_options.size", "%d bytes must not be negative", m.TmpfsOptions.SizeBytes)
	}
	if mode := m.TmpfsOptions.Mode; mode < 0 || mode > 0o7777 {
		f.add(option+".tmpfs_options.mode", "%d is no file mode; use for example 0777", mode)
	}
}

// Volume is one parsed entry of the option volumes.
type Volume struct {
	Source, Target string
	Mode           string // "ro", "rw,z", …; empty when not given
}

// ParseVolume reads "src:dst[:mode]".
func ParseVolume(entry string) (Volume, error) {
	fields := strings.Split(entry, ":")
	if len(fields) < 2 || fields[0] == "" || fields[1] == "" {
		return Volume{}, fmt.Errorf("invalid docker volume %q: not <src>:<destination> format", entry)
	}
	if len(fields) > 3 {
		return Volume{}, fmt.Errorf("invalid docker volume %q: more than <src>:<destination>:<mode>; use a mount block for paths with colons", entry)
	}
	v := Volume{Source: fields[0], Target: fields[1]}
	if len(fields) == 3 {
		v.Mode = fields[2]
	}
	return v, nil
}
