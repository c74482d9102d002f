// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package wrapper is the command nvidia-docker of nvidia-docker v1: every docker
// command passes through unchanged, and run and create of a GPU image get the
// devices and the driver volume (nvidia-docker-v1 §10 to §12).
//
// The model: the host variables tell whether the GPUs are here ([Target] nil) or
// behind another machine's REST API. The image's labels tell whether it is a GPU
// image at all, and which CUDA it needs. Then docker replaces this process, so
// docker's exit status is ours.
//
// The wrapper calls the docker command, not the Engine API: what the user gave as
// NV_DOCKER ("sudo docker -D") must decide which engine is asked.
package wrapper
