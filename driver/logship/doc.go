// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package logship carries the output of a container to the task's logs, each
// byte exactly once and in order, across restarts of this process, of the agent
// and of the engine (task-driver 4.8).
//
// A Shipper reads the engine's log of one container with timestamps and hands
// chunks to a Sink, each chunk with the position in the log that follows it. The
// Sink delivers the chunk and then keeps the position; after a restart it tells
// both where it stands and how many bytes beyond the position it has delivered.
//
// There are two sinks. FIFOs feeds Nomad's logmon through its two named pipes.
// What a dying process had just written into a pipe cannot be found out
// afterwards, so one small process a node, the holder, does the writing: it
// lives on when this process is killed, and keeps logmon from seeing an early
// end. Files writes the rotated log files itself; what it has delivered is what
// the files hold.
//
// Limits: what the engine's log driver rotates away before it was read is lost
// (one task event tells so, where the engine lets us see it), and an engine
// whose clock is set back by more than ten seconds while no shipper runs may
// have those seconds skipped.
//
// Tests against a real Docker Engine:
//
//	go test -tags engine ./driver/logship/
package logship
