// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import "errors"

// Kinds of failure that callers tell apart.
var (
	// ErrNotFound: the volume does not exist.
	ErrNotFound = errors.New("no such volume")
	// ErrNoDriver: no NVIDIA driver is loaded, so there is no volume to make.
	ErrNoDriver = errors.New("no NVIDIA driver is loaded")
	// ErrMismatch: user-space files and kernel module are of different versions.
	ErrMismatch = errors.New("driver libraries and kernel module differ")
	// ErrInUse: a mount uses the tree.
	ErrInUse = errors.New("volume is in use")
)
