// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// CacheEntry is one line of ld.so.cache: a library's SONAME and its path.
type CacheEntry struct {
	Key, Path string
	Flags     uint32 // CacheX8664 or CacheI386
}

// Flags of entries for libraries of the C library that everyone uses.
const (
	CacheX8664 uint32 = 0x0303
	CacheI386  uint32 = 0x0003
)

const (
	newMagic, newVersion = "glibc-ld.so.cache", "1.1"
	oldMagic             = "ld.so-1.7.0\x00"
	newHeader, newEntry  = 48, 24
)

// LDCache is an ld.so.cache with the entries, in the format of today
// (driver-files §4). The order is kept, except that the dynamic loader's own
// order of keys, descending, is made first.
func LDCache(entries []CacheEntry) []byte {
	sorted := sortedEntries(entries)
	var out, strings bytes.Buffer
	base := uint32(newHeader + newEntry*len(sorted))
	offsets := stringTable(&strings, sorted)
	out.WriteString(newMagic + newVersion)
	_ = binary.Write(&out, binary.LittleEndian, []uint32{uint32(len(sorted)), uint32(strings.Len())})
	out.Write([]byte{2, 0, 0, 0}) // little endian
	out.Write(make([]byte, newHeader-out.Len()))
	for _, e := range sorted {
		_ = binary.Write(&out, binary.LittleEndian, []uint32{e.Flags, base + offsets[e.Key], base + offsets[e.Path], 0})
		_ = binary.Write(&out, binary.LittleEndian, uint64(0))
	}
	out.Write(strings.Bytes())
	return out.Bytes()
}

// CompatLDCache is the same in the double format that ldconfig wrote by default
// before glibc 2.32: an old part whose strings are those of the new one.
func CompatLDCache(entries []CacheEntry) []byte {
	sorted := sortedEntries(entries)
	var out, strings bytes.Buffer
	offsets := stringTable(&strings, sorted)
	out.WriteString(oldMagic)
	_ = binary.Write(&out, binary.LittleEndian, uint32(len(sorted)))
	end := out.Len() + 12*len(sorted)
	padding := (8 - end%8) % 8
	// Offsets of the old part count from the end of its entries.
	base := uint32(padding + newHeader + newEntry*len(sorted))
	for _, e := range sorted {
		_ = binary.Write(&out, binary.LittleEndian, []uint32{e.Flags, base + offsets[e.Key], base + offsets[e.Path]})
	}
	out.Write(make([]byte, padding))
	out.Write(LDCache(entries))
	return out.Bytes()
}

func sortedEntries(entries []CacheEntry) []CacheEntry {
	sorted := append([]CacheEntry(nil), entries...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Key > sorted[j].Key })
	return sorted
}

func stringTable(table *bytes.Buffer, entries []CacheEntry) map[string]uint32 {
	offsets := map[string]uint32{}
	for _, e := range entries {
		for _, s := range []string{e.Key, e.Path} {
			if _, ok := offsets[s]; !ok {
				offsets[s] = uint32(table.Len())
				table.WriteString(s + "\x00")
			}
		}
	}
	return offsets
}
