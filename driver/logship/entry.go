// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// readAhead is the buffer between the engine and us.
	readAhead = 32 * 1024
	// maxEntry guards against a stream that is not what it should be; entries
	// have 16 KiB with the usual log drivers.
	maxEntry = 16 << 20
	// stampLength is that of the engine's timestamps, with the space behind.
	stampLength = len("2006-01-02T15:04:05.000000000Z ")
	// partLength is how much of a line without an end makes an entry of its own.
	partLength = 16 * 1024
)

// entry is one entry of the engine's log: a line, with its line feed, or a part
// of a long one. data is valid until the next read.
type entry struct {
	stream int
	time   int64 // ns since 1970
	data   []byte
	at     place // behind the entry; unknown through the engine
}

// entryReader takes the engine's log stream apart.
type entryReader struct {
	in   *bufio.Reader
	tty  bool
	buf  []byte // reused for data
	last []byte // tty: the newest timestamp, for parts of a long line
}

func newEntryReader(r io.Reader, tty bool) *entryReader {
	return &entryReader{in: bufio.NewReaderSize(r, readAhead), tty: tty}
}

// next returns the next entry, or io.EOF at the end of the stream. The stream
// itself ends with its context.
func (r *entryReader) next(context.Context) (entry, error) {
	if r.tty {
		return r.nextRaw()
	}
	return r.nextFrame()
}

// ready says that the next entry lies in the buffer: next will not wait for the
// engine.
func (r *entryReader) ready() bool {
	have := r.in.Buffered()
	if r.tty {
		waiting, _ := r.in.Peek(have)
		return bytes.IndexByte(waiting, '\n') >= 0
	}
	if have < 8 {
		return false
	}
	head, _ := r.in.Peek(8)
	return have-8 >= int(binary.BigEndian.Uint32(head[4:]))
}

// nextFrame reads one frame of the multiplexed stream: a byte for the stream,
// three zeros, the length, then timestamp and data.
func (r *entryReader) nextFrame() (entry, error) {
	var head [8]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return entry{}, err
	}
	length := binary.BigEndian.Uint32(head[4:])
	if length > maxEntry || head[0] > 3 {
		return entry{}, fmt.Errorf("log stream of the engine is not in frames: header %x", head)
	}
	r.grow(int(length))
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return entry{}, noEOF(err)
	}
	if head[0] == 3 {
		return entry{}, fmt.Errorf("engine could not read the log: %s", bytes.TrimSpace(r.buf))
	}
	stamp, data, ok := bytes.Cut(r.buf, []byte{' '})
	if !ok {
		return entry{}, fmt.Errorf("log entry of the engine has no timestamp: %.40q", r.buf)
	}
	at, err := parseStamp(stamp)
	return entry{stream: max(int(head[0])-1, stdout), time: at, data: data}, err
}

// nextRaw reads one entry of a terminal's stream. Parts of a long line are told
// from its text by the same timestamp coming again after a full part.
func (r *entryReader) nextRaw() (entry, error) {
	stamp, err := r.in.Peek(stampLength)
	if err != nil {
		if len(stamp) > 0 {
			err = noEOF(err)
		}
		return entry{}, err
	}
	at, err := parseStamp(stamp[:stampLength-1])
	if err != nil {
		return entry{}, err
	}
	r.last = append(r.last[:0], stamp...)
	_, _ = r.in.Discard(stampLength) // it was peeked at
	r.buf = r.buf[:0]
	for {
		ended, err := r.more()
		if err != nil {
			return entry{}, noEOF(err)
		}
		if ended {
			return entry{stream: stdout, time: at, data: r.buf}, nil
		}
	}
}

// more appends to r.buf what is there of the entry and reports its end. Before a
// part is full only a line feed ends it; after that also the timestamp of the
// next part, and the end of the stream in any case.
func (r *entryReader) more() (ended bool, err error) {
	if _, err := r.in.Peek(1); errors.Is(err, io.EOF) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	waiting, _ := r.in.Peek(r.in.Buffered())
	take := len(waiting)
	if i := bytes.IndexByte(waiting, '\n'); i >= 0 {
		take, ended = i+1, true
	}
	if room := partLength - len(r.buf); room <= 0 {
		if r.atNextPart() {
			return true, nil
		}
		take, ended = 1, waiting[0] == '\n'
	} else if take > room {
		take, ended = room, false
	}
	r.buf = append(r.buf, waiting[:take]...)
	_, _ = r.in.Discard(take) // it was peeked at
	if len(r.buf) > maxEntry {
		return false, errors.New("log stream of the engine has no end of entry")
	}
	return ended, nil
}

// atNextPart says that the newest timestamp comes next. It waits for more bytes
// only while those that are there are the beginning of it.
func (r *entryReader) atNextPart() bool {
	for n := 1; ; n++ {
		next, err := r.in.Peek(n)
		if err != nil || !bytes.Equal(next, r.last[:n]) {
			return false
		}
		if n == stampLength {
			return true
		}
	}
}

// grow makes r.buf n bytes long.
func (r *entryReader) grow(n int) {
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, partLength+stampLength))
	}
	r.buf = r.buf[:n]
}

// parseStamp reads a timestamp of the engine into ns since 1970.
func parseStamp(b []byte) (int64, error) {
	at, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return 0, fmt.Errorf("log entry of the engine has no timestamp: %.40q", b)
	}
	return at.UnixNano(), nil
}

// noEOF makes an end inside an entry an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
