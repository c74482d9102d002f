// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shoenig/test/must"
)

// all reads a stream to its end.
func all(t *testing.T, r io.Reader, tty bool) []entry {
	t.Helper()
	in := newEntryReader(r, tty)
	var got []entry
	for {
		e, err := in.next(t.Context())
		if errors.Is(err, io.EOF) {
			return got
		}
		must.NoError(t, err)
		e.data = bytes.Clone(e.data)
		got = append(got, e)
	}
}

func TestEntryReader(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", partLength/16)
	replaced := strings.Repeat("\ufffd", partLength) // what was binary
	for _, tty := range []bool{false, true} {
		log := &fakeLog{tty: tty, entries: []entry{
			{time: 1e18, data: []byte("first\n")},
			{time: 1e18 + 1, data: []byte("\n")},
			{time: 1e18 + 2, data: []byte(long)}, {time: 1e18 + 2, data: []byte(long)}, {time: 1e18 + 2, data: []byte("end\n")},
			{time: 1e18 + 3, data: []byte(replaced)}, {time: 1e18 + 3, data: []byte("end\n")},
			{time: 1e18 + 4, data: []byte(long)}, {time: 1e18 + 4, data: []byte("\n")},
			{time: 1e18 + 5, data: []byte("no line feed")},
		}}
		if !tty {
			log.entries = append(log.entries, entry{stream: stderr, time: 1e18 + 6, data: []byte("a\x00b\xff\n")})
		}
		var stream bytes.Buffer
		for _, e := range log.entries {
			stream.Write(log.render(e))
		}
		must.Eq(t, log.entries, all(t, bytes.NewReader(stream.Bytes()), tty))
		must.Eq(t, log.entries, all(t, iotest.OneByteReader(&stream), tty))
	}
}

func TestEntryReaderRefuses(t *testing.T) {
	log := &fakeLog{}
	whole := log.render(entry{time: 1e18, data: []byte("text\n")})
	system := bytes.Clone(whole)
	system[0] = 3
	for _, tc := range []struct {
		name, stream, want string
		tty                bool
	}{
		{"half a header", string(whole[:4]), "unexpected EOF", false},
		{"half a frame", string(whole[:20]), "unexpected EOF", false},
		{"no frames", "HTTP/1.1 400", "not in frames", false},
		{"an error of the engine", string(system), "engine could not read the log", false},
		{"no timestamp", "\x01\x00\x00\x00\x00\x00\x00\x04text", "no timestamp", false},
		{"tty: no timestamp", strings.Repeat("text", 10), "no timestamp", true},
		{"tty: half a timestamp", "2026-01-02T", "unexpected EOF", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := newEntryReader(strings.NewReader(tc.stream), tc.tty).next(t.Context())
			must.ErrorContains(t, err, tc.want)
		})
	}
}
