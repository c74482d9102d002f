// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"regexp"
)

// volumeName is the only volume that exists, and the directory that holds its versions.
const volumeName = "nvidia_driver"

// NameError is a volume name that cannot be served. Its text is what
// nvidia-docker v1 answered, letter for letter.
type NameError struct {
	Reason string // "bad volume format", "unsupported volume", "no such volume", "invalid volume version"
	Name   string // as requested
}

// Error gives "<reason>: <name>".
func (e *NameError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Name) }

// Is makes errors.Is(err, ErrNotFound) true for a volume that does not exist.
func (e *NameError) Is(target error) bool {
	return target == ErrNotFound && e.Reason == reasonNotFound
}

const (
	reasonFormat      = "bad volume format"
	reasonUnsupported = "unsupported volume"
	reasonNotFound    = "no such volume"
	reasonVersion     = "invalid volume version"
)

var (
	nameGrammar    = regexp.MustCompile(`^([a-zA-Z0-9_.-]+)_([0-9]+(?:\.[0-9]+)*)$`)
	versionGrammar = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)*$`)
)

// Name gives the volume name of a driver version, "nvidia_driver_352.39".
func Name(version string) string { return volumeName + "_" + version }

// ParseName returns the version of a volume name. The version is digits and
// single dots only, so it is safe as one path element; anything else is a
// *NameError.
func ParseName(name string) (version string, err error) {
	m := nameGrammar.FindStringSubmatch(name)
	if m == nil {
		return "", &NameError{Reason: reasonFormat, Name: name}
	}
	if m[1] != volumeName {
		return "", &NameError{Reason: reasonUnsupported, Name: name}
	}
	return m[2], nil
}
