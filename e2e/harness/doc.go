// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package harness starts the real things that the whole-system tests and the
// demonstration need: a Docker Engine, a Nomad agent, container images made on
// the spot, and a simulated GPU host.
//
// Everything it starts it also ends, by handle: processes by pid, containers by
// the labels and names of its own jobs. A Docker Engine that was there before
// is used and left running.
package harness
