// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package image gets a task's image onto the engine and takes unused images
// away again.
//
// A Coordinator resolves a reference to an image id: a local hit, an archive to
// load, or a pull. Pulls of the same reference, platform and credentials are
// joined; each caller keeps its own time limits, events and cancellation, and
// the pull itself goes on while one caller is left. Every image that Resolve or
// Adopt hands to a caller is counted under that caller's id; when the last
// count is gone the image is removed after a delay (task-driver 4.10).
//
// Credentials are looked up anew for each pull, in the order of cases DRV-17.
//
// Tests against a real Docker Engine and a real registry on loopback:
//
//	go test -tags engine ./driver/image/
package image
