// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package doctor looks at everything that could be wrong with a GPU host, all at
// once, and tells the cure of each fault. It changes nothing.
//
// The model: an [Examination] asks the GPU host, the engine, the volume socket
// and the API's port, and gives a [Finding] for each question: fine, a warning,
// or broken. A host without GPUs or without a driver is a warning: CPU tasks run
// there. A part that hangs costs its time limit once and nothing else.
package doctor
