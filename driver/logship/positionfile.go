// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
)

// slotSize is the room of one record: a checksum, a sequence number, a position.
const slotSize = 256

// positionFile keeps the newest position of a container. Two slots are written
// in turn without waiting for the disk: a torn record leaves the one before it.
type positionFile struct {
	file *os.File
	seq  uint64
}

// openPositionFile opens or creates the file and reads the newest record; the
// zero position when there is none.
func openPositionFile(path string) (*positionFile, position, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, position{}, fmt.Errorf("log position: %w", err)
	}
	p := &positionFile{file: f}
	var newest position
	for slot := range int64(2) {
		raw := make([]byte, slotSize)
		if n, _ := f.ReadAt(raw, slot*slotSize); n < slotSize {
			continue
		}
		if seq, pos, ok := decodeSlot(raw); ok && seq > p.seq {
			p.seq, newest = seq, pos
		}
	}
	return p, newest, nil
}

// decodeSlot reports false for an empty or torn record.
func decodeSlot(raw []byte) (seq uint64, pos position, ok bool) {
	if binary.LittleEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[4:]) {
		return 0, position{}, false
	}
	pos, err := decodePosition(raw[12:])
	return binary.LittleEndian.Uint64(raw[4:]), pos, err == nil
}

// put replaces the older record.
func (p *positionFile) put(pos position) error {
	p.seq++
	raw := make([]byte, slotSize)
	binary.LittleEndian.PutUint64(raw[4:], p.seq)
	copy(raw[12:], pos.encode())
	binary.LittleEndian.PutUint32(raw, crc32.ChecksumIEEE(raw[4:]))
	if _, err := p.file.WriteAt(raw, int64(p.seq%2)*slotSize); err != nil {
		return fmt.Errorf("log position: %w", err)
	}
	return nil
}

func (p *positionFile) close() { _ = p.file.Close() } // every record is written already
