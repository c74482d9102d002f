// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
)

// cacheEntry is one line of a loader cache: which file answers to a soname.
type cacheEntry struct {
	soname string
	path   string
	bits   int // 32 or 64
}

// The two formats of a loader cache, and their sizes in bytes (driver-files §4).
const (
	oldCacheMagic   = "ld.so-1.7.0\x00"
	newCacheMagic   = "glibc-ld.so.cache1.1"
	oldCacheHeader  = 16
	oldCacheEntry   = 12
	newCacheHeader  = 48
	newCacheEntry   = 24
	cacheEndianByte = 28
)

// The flags of an entry: the low byte is the kind of file, the high byte its
// machine.
const (
	flagKind     = 0x00ff
	flagELF      = 0x0001
	flagELFLibc6 = 0x0003
	flagMachine  = 0xff00
	flagI386     = 0x0000
	flagX8664    = 0x0300
	flagPPC64    = 0x0500
	flagX32      = 0x0800
	flagAArch64  = 0x0a00
)

var errNoCache = errors.New("not a loader cache")

// parseLDCache reads a loader cache of either format, in its order. Entries that
// are not ELF libraries of a machine we know, or that point outside the data,
// are left out; only data that is no cache at all is an error.
func parseLDCache(data []byte) ([]cacheEntry, error) {
	if bytes.HasPrefix(data, []byte(oldCacheMagic)) {
		return parseOldCache(data)
	}
	return parseNewCache(data)
}

// parseOldCache reads the old format. A new cache may follow it, aligned to 8
// bytes; it says the same and more, so it is preferred.
func parseOldCache(data []byte) ([]cacheEntry, error) {
	if len(data) < oldCacheHeader {
		return nil, fmt.Errorf("%w: cut after %d bytes", errNoCache, len(data))
	}
	count := int64(binary.LittleEndian.Uint32(data[12:]))
	end := oldCacheHeader + count*oldCacheEntry
	if end > int64(len(data)) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errNoCache, count, len(data))
	}
	if next := (end + 7) &^ 7; next < int64(len(data)) && bytes.HasPrefix(data[next:], []byte(newCacheMagic)) {
		return parseNewCache(data[next:])
	}
	strings := data[end:]
	return cacheEntries(data[oldCacheHeader:end], oldCacheEntry, strings, binary.LittleEndian), nil
}

// parseNewCache reads the format with hwcap; offsets count from its own header.
func parseNewCache(data []byte) ([]cacheEntry, error) {
	if len(data) < newCacheHeader || !bytes.HasPrefix(data, []byte(newCacheMagic)) {
		return nil, errNoCache
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if data[cacheEndianByte]&3 == 3 {
		order = binary.BigEndian
	}
	count := int64(order.Uint32(data[20:]))
	end := newCacheHeader + count*newCacheEntry
	if end > int64(len(data)) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errNoCache, count, len(data))
	}
	return cacheEntries(data[newCacheHeader:end], newCacheEntry, data, order), nil
}

func cacheEntries(table []byte, size int, strings []byte, order binary.ByteOrder) []cacheEntry {
	var entries []cacheEntry
	for ; len(table) >= size; table = table[size:] {
		bits := entryBits(order.Uint32(table))
		soname, ok1 := cacheString(strings, order.Uint32(table[4:]))
		path, ok2 := cacheString(strings, order.Uint32(table[8:]))
		if bits == 0 || !ok1 || !ok2 {
			continue
		}
		entries = append(entries, cacheEntry{soname: soname, path: path, bits: bits})
	}
	return entries
}

// entryBits tells the class of an entry; zero for a file that is no ELF library
// or that this machine cannot run.
func entryBits(flags uint32) int {
	if kind := flags & flagKind; kind != flagELF && kind != flagELFLibc6 {
		return 0
	}
	return machineBits[runtime.GOARCH][flags&flagMachine]
}

// machineBits are the classes of the entries that a machine can run.
var machineBits = map[string]map[uint32]int{
	"amd64":   {flagX8664: 64, flagI386: 32, flagX32: 32},
	"arm64":   {flagAArch64: 64},
	"ppc64le": {flagPPC64: 64},
}

// cacheString reads a non-empty NUL-terminated string at an offset.
func cacheString(data []byte, offset uint32) (string, bool) {
	if int64(offset) >= int64(len(data)) {
		return "", false
	}
	rest := data[offset:]
	end := bytes.IndexByte(rest, 0)
	if end <= 0 {
		return "", false
	}
	return string(rest[:end]), true
}
