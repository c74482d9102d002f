// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"encoding/binary"
)

// cursor is a place in one stream of an engine's log: behind the Count-th entry
// that bears Time. The parts of a line over 16 KiB bear one time. Times may run
// backwards when the clock is set back; Newest is the latest seen.
type cursor struct {
	Time   int64 // ns since 1970; 0 before the first entry
	Count  uint32
	Newest int64
}

// fileEnd is the end of the newest of a stream's rotated files.
type fileEnd struct {
	Index uint32
	Size  int64 // bytes
}

// position is a place in the whole log of one container. Its encoding has a
// fixed length.
type position struct {
	Streams [streams]cursor
	// Last is the time of the entry that was shipped last, of either stream.
	Last int64
	// Ahead counts bytes of each stream behind its cursor that the sink has
	// delivered already.
	Ahead [streams]int64
	// Files is kept by the sink Files only.
	Files [streams]fileEnd
	// Place is the same place in the engine's log files, if that is known.
	Place place
}

// advance moves the position behind one entry.
func (p *position) advance(e entry) {
	c := &p.Streams[e.stream]
	if e.time == c.Time {
		c.Count++
	} else {
		c.Time, c.Count = e.time, 1
	}
	c.Newest = max(c.Newest, e.time)
	p.Last, p.Place = e.time, e.at
}

// encode writes the position in its fixed form.
func (p position) encode() []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, p) // fixed-size fields into memory
	return b.Bytes()
}

// decodePosition reads what encode wrote.
func decodePosition(raw []byte) (position, error) {
	var p position
	err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, &p)
	return p, err
}

// seeker finds the place of a position again in a log that was opened a little
// before it.
type seeker struct {
	from    [streams]cursor
	passing [streams]bool // the place was found, or lies before the log's start
	seen    [streams]uint32
}

func newSeeker(p position) *seeker {
	s := &seeker{from: p.Streams}
	for i, c := range p.Streams {
		s.passing[i] = c.Time == 0
	}
	return s
}

// isNew says whether the entry lies behind the position.
func (s *seeker) isNew(e entry) bool {
	if s.passing[e.stream] {
		return true
	}
	from := s.from[e.stream]
	if e.time > from.Newest {
		s.passing[e.stream] = true // the place itself was rotated away
		return true
	}
	if e.time == from.Time {
		s.seen[e.stream]++
		s.passing[e.stream] = s.seen[e.stream] == from.Count
	}
	return false
}
