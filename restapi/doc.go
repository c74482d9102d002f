// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package restapi is the HTTP face of one GPU host: the seven v1.0 endpoints of
// nvidia-docker-plugin, byte for byte, the Prometheus metrics and a status page.
//
// The model: an [Info] is made from an inventory, a [Status] from an inventory
// and one shared sample of readings; each renders itself as text and as JSON.
// [Handler] serves them; the command line prints the same renderings. Nothing
// here calls NVML: however many clients ask, they share the host's sample.
//
// An answer is rendered completely before its first byte is written, so a
// failure is a clean error and never half a body (nvidia-docker-v1 D5).
//
// A reading that a card does not tell is null in JSON and N/A in text. A GPU
// that cannot be read at all keeps its place with every reading null; only when
// no GPU of the host can be read is the whole answer an error.
//
// The golden answers of v1 lie in testdata; records that we decided to answer
// otherwise are listed, with the reason, in golden_test.go.
package restapi
