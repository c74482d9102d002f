// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import "sync"

// chunkSize is how much is handed to a sink at once, in bytes, unless a single
// entry is larger.
const chunkSize = 64 * 1024

// chunkBuffers lends buffers while there is something to ship, so that an idle
// task holds none.
var chunkBuffers = sync.Pool{New: func() any { b := make([]byte, 0, chunkSize); return &b }}

// batch gathers entries of one stream into a chunk.
type batch struct {
	pos    position // behind everything that was added
	stream int
	buf    *[]byte // nil while empty
}

// fits says that the entry can join the chunk.
func (b *batch) fits(e entry) bool {
	return b.buf == nil || (b.stream == e.stream && len(*b.buf)+len(e.data) <= chunkSize)
}

// add appends an entry, without the bytes that the sink has already.
func (b *batch) add(e entry) {
	if b.buf == nil {
		b.buf = chunkBuffers.Get().(*[]byte)
		*b.buf = (*b.buf)[:0]
	}
	b.stream = e.stream
	b.pos.advance(e)
	ahead := min(b.pos.Ahead[e.stream], int64(len(e.data)))
	b.pos.Ahead[e.stream] -= ahead
	*b.buf = append(*b.buf, e.data[ahead:]...)
}

// chunk is what was gathered; false when there is nothing.
func (b *batch) chunk() (chunk, bool) {
	if b.buf == nil {
		return chunk{}, false
	}
	return chunk{stream: b.stream, data: *b.buf, after: b.pos}, true
}

// reset gives the buffer back.
func (b *batch) reset() {
	if b.buf == nil {
		return
	}
	if cap(*b.buf) <= 2*chunkSize { // one huge entry must not stay for good
		chunkBuffers.Put(b.buf)
	}
	b.buf = nil
}
