// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The holder's protocol: one connection a container. The client opens with a
// JSON request on one line; the holder answers with a JSON reply on one line.
// After an attach the client sends
// messages of a header, a position and data. Only msgUnread is answered, with
// eight bytes.

// protocolVersion changes when an older holder could misread a newer client. It
// outlives upgrades of the driver: change it for good reasons only.
const protocolVersion = 1

// The requests.
const (
	opAttach = "attach" // write for this container from now on
	opDrop   = "drop"   // close its pipes
	opList   = "list"   // which containers are held
)

// request opens a connection. The paths are those of an attach.
type request struct {
	Version   int    `json:"version"`
	Op        string `json:"op"`
	Container string `json:"container,omitempty"`
	Stdout    string `json:"stdout,omitempty"`
	Stderr    string `json:"stderr,omitempty"`
	Position  string `json:"position,omitempty"`
}

// reply answers a request.
type reply struct {
	Error    string   `json:"error,omitempty"`
	Position []byte   `json:"position,omitempty"` // encoded
	Held     []string `json:"held,omitempty"`
}

// The messages.
const (
	msgWrite  = 1 // write data to a pipe, then keep the position
	msgUnread = 2 // how many bytes wait in the pipes? Answered after all writes before it
)

// headSize is that of a message's header: type, stream, two zeros, the lengths
// of position and data.
const headSize = 12

// putHead builds a header.
func putHead(kind, stream byte, positionLen, dataLen int) []byte {
	head := make([]byte, headSize, headSize+positionLen)
	head[0], head[1] = kind, stream
	binary.LittleEndian.PutUint32(head[4:], uint32(positionLen))
	binary.LittleEndian.PutUint32(head[8:], uint32(dataLen))
	return head
}

// head is a header taken apart.
type head struct {
	kind, stream         byte
	positionLen, dataLen int
}

// readHead reads a header; io.EOF when the client is gone between messages.
func readHead(r io.Reader) (head, error) {
	var raw [headSize]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return head{}, err
	}
	h := head{
		kind: raw[0], stream: raw[1],
		positionLen: int(binary.LittleEndian.Uint32(raw[4:])), dataLen: int(binary.LittleEndian.Uint32(raw[8:])),
	}
	if h.stream >= streams || h.positionLen > slotSize || h.dataLen > maxEntry+chunkSize {
		return head{}, fmt.Errorf("log holder: message header %x makes no sense", raw)
	}
	return h, nil
}

// maxLine limits requests and replies, in bytes.
const maxLine = 64 * 1024

// sendLine writes v as one line of JSON.
func sendLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("log holder: %w", err)
	}
	return nil
}

// receiveLine reads one line of JSON into v. Nothing may follow the line before
// it is answered.
func receiveLine(r io.Reader, v any) error {
	var line []byte
	buf := make([]byte, 1024)
	for {
		n, err := r.Read(buf)
		line = append(line, buf[:n]...)
		switch {
		case len(line) > 0 && line[len(line)-1] == '\n':
			return json.Unmarshal(line, v)
		case err != nil:
			return noEOF(err)
		case len(line) > maxLine:
			return errors.New("log holder: line is too long")
		}
	}
}
