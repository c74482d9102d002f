// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import "context"

// Sink is where the output of one container goes: see FIFOs and Files.
type Sink interface {
	// attach makes the sink ready and returns where it stands; the zero position
	// for a container that is new to it. It may block as long as ctx lives.
	attach(ctx context.Context) (position, error)
	// write delivers a chunk whole and keeps its position, or returns an error,
	// after which attach tells how far it came.
	write(ctx context.Context, c chunk) error
	// flush waits until everything that was written has reached the reader.
	flush(ctx context.Context) error
	// detach lets go of the sink; a later attach, also of another process, goes on.
	detach()
	// discard ends the output for good and forgets the position.
	discard()
}

// The streams of a container.
const (
	stdout = iota
	stderr
	streams // their number
)

// chunk is a run of bytes of one stream.
type chunk struct {
	stream int
	data   []byte
	after  position // where the engine's log goes on after data
}
