// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"bytes"
	"fmt"
)

// The part of the libraries that is filled for each host; see state.c.
const (
	blobMagic     = "SIMHOST-BLOB-01\x00"
	blobDirRoom   = 1024
	blobVersion   = 48
	blobInventory = 384 * 1024
)

// fillBlob writes into the bytes of a library where its state is, which version
// it has and what it tells where the state is out of reach.
func fillBlob(library []byte, dir, version string, inventory []byte) error {
	at := bytes.Index(library, []byte(blobMagic))
	if at < 0 {
		return fmt.Errorf("the library has no place for its state")
	}
	at += len(blobMagic)
	for _, field := range []struct {
		what    string
		content []byte
		room    int
	}{{"path", []byte(dir), blobDirRoom}, {"version", []byte(version), blobVersion}, {"inventory", inventory, blobInventory}} {
		if len(field.content) >= field.room {
			return fmt.Errorf("the %s of the simulated host is too long: %d bytes, room for %d", field.what, len(field.content), field.room-1)
		}
		copy(library[at:at+field.room], make([]byte, field.room))
		copy(library[at:], field.content)
		at += field.room
	}
	return nil
}

// hideSymbols makes functions unknown to dlsym by changing their names in the
// table of names. A name is hidden only as a whole, not as the end of a longer one.
func hideSymbols(library []byte, names []string) {
	for _, name := range names {
		whole := []byte("\x00" + name + "\x00")
		for at := bytes.Index(library, whole); at >= 0; at = bytes.Index(library, whole) {
			library[at+1] = '-'
		}
	}
}
