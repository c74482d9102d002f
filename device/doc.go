// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package device is Nomad's device plugin "nvidia-gpu": it tells the agent which
// NVIDIA GPUs a node has and how they are (Fingerprint, Stats), and how a task
// gets at the ones it was given (Reserve).
//
// The model: an offer is what one message of the fingerprint stream says. It is
// made from gpuhost's inventory and the plugin's options alone: GPUs grouped by
// model, or each by itself, a GPU in MIG mode replaced by its MIG devices, a
// shared GPU by its shares. Reserve looks an id up in the newest offer, so it
// never gives away what is not offered now, and asks gpuhost for device nodes by
// the driver's minor numbers, which are not the indexes.
//
// The surprises: SetConfig starts nothing, as Nomad calls it in throw-away
// processes. A GPU that fails stays in the offer as unhealthy, since Nomad would
// forget which task holds a GPU that vanished; one that does vanish stays for half
// a minute. Attributes belong to a group, so what its GPUs do not agree on is absent.
//
// The tests run on simulated hosts; "go test -run XXX -bench Idle ./device"
// measures what an idle plugin costs.
package device
