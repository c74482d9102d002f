// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package accounting keeps the books of GPU tasks: how long each held which
// GPUs, how much memory it used at most, how busy they were, and the energy.
//
// The model: [Ledger.Begin] opens an account when a task has got its GPUs, and
// [Ledger.End] closes it with a [Record]. Between them [Ledger.Run] looks at the
// host's shared sample every few seconds, and only while an account is open.
//
// Only what belongs to the task alone is booked. Utilisation and energy are told
// by the card for the whole GPU, so a task that holds a share or a MIG device has
// none. What a card does not tell is nil, never 0.
//
// A plugin that was restarted knows when its tasks began, but saw them only from
// then on: the record tells from when.
package accounting
