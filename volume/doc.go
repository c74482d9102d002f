// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package volume makes and serves the driver volume: a directory that holds the
// user-space files of exactly one NVIDIA driver version, and the Docker volume
// driver "nvidia-docker" that names it nvidia_driver_<version>.
//
// The model: a [Store] asks its [Host] which driver is loaded and where its
// files are, chooses from them (a plan), builds the tree beside its place,
// verifies it and renames it. A volume is therefore complete or absent; a tree
// that a mount uses is never changed, a damaged one is replaced as a whole.
//
// Surprises: files are hard links wherever the file system allows it, so their
// mode, owner and SELinux label are those of the host's own files and must not
// be changed through the volume. The tree holds exactly what nvidia-docker v1
// put there (nvidia-docker-v1 §8), which leaves no place for a manifest: that
// lies beside the volumes directory, in ".<its name>.state".
//
// The choice of files follows driver-files §7, the wire protocol
// nvidia-docker-v1 §9. Tests against a real engine: go test -tags engine
// ./volume; against genuine driver packages: make test-genuine.
package volume
