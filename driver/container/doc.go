// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package container turns a task into the engine's create request: pure
// assembly, one file for each area of the request.
//
// [Assemble] is cheap and repeatable. The driver calls it before it touches the
// registry, so that every fault of a job shows before a layer is pulled
// (task-driver ST-3), and again when the image's environment is known, which the
// search paths of GPU tasks need. Areas take read-only inputs and return their
// part or an error; none logs, none changes its input.
//
// Three things need the disk. Host paths are compared with all links resolved
// (hostpath.go), seccomp profiles are read here because the engine wants their
// text (seccomp.go), and the hosts and resolv.conf files of a group are planned
// by Assemble and written by [Request.WriteFiles] (files.go). A task can write
// to the directories of all of them, so nothing there follows a link that leaves
// the allocation.
//
// What holds for GPUs (design rule: no reservation, no GPU) is in gpu.go for
// tasks with a grant and in nvidia.go for everything a job could use to get
// around one.
package container
