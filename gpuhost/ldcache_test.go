// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// cacheLine is an entry of a cache that a test makes.
type cacheLine struct {
	soname, path string
	flags        uint32
}

// newCache builds a cache in the format with hwcap.
func newCache(lines []cacheLine) []byte {
	end := newCacheHeader + len(lines)*newCacheEntry
	data := make([]byte, end)
	copy(data, newCacheMagic)
	binary.LittleEndian.PutUint32(data[20:], uint32(len(lines)))
	for i, line := range lines {
		entry := data[newCacheHeader+i*newCacheEntry:]
		binary.LittleEndian.PutUint32(entry, line.flags)
		binary.LittleEndian.PutUint32(entry[4:], uint32(len(data)))
		data = append(data, line.soname+"\x00"...)
		entry = data[newCacheHeader+i*newCacheEntry:]
		binary.LittleEndian.PutUint32(entry[8:], uint32(len(data)))
		data = append(data, line.path+"\x00"...)
	}
	binary.LittleEndian.PutUint32(data[24:], uint32(len(data)-end))
	return data
}

// oldCache builds a cache in the old format, whose strings begin after the table.
func oldCache(lines []cacheLine) []byte {
	table := make([]byte, oldCacheHeader+len(lines)*oldCacheEntry)
	copy(table, oldCacheMagic)
	binary.LittleEndian.PutUint32(table[12:], uint32(len(lines)))
	var text []byte
	for i, line := range lines {
		entry := table[oldCacheHeader+i*oldCacheEntry:]
		binary.LittleEndian.PutUint32(entry, line.flags)
		binary.LittleEndian.PutUint32(entry[4:], uint32(len(text)))
		text = append(text, line.soname+"\x00"...)
		binary.LittleEndian.PutUint32(entry[8:], uint32(len(text)))
		text = append(text, line.path+"\x00"...)
	}
	return append(table, text...)
}

// bothCaches is the old format with the new one behind it, as ldconfig wrote it
// for years.
func bothCaches(lines []cacheLine) []byte {
	first := oldCache(lines)[:oldCacheHeader+len(lines)*oldCacheEntry]
	for len(first)%8 != 0 {
		first = append(first, 0)
	}
	return append(first, newCache(lines)...)
}

var testCache = []cacheLine{
	{"libcuda.so.1", "/usr/lib64/libcuda.so.1", flagX8664 | flagELFLibc6},
	{"libcuda.so.1", "/usr/lib/libcuda.so.1", flagI386 | flagELFLibc6},
	{"libcuda.so.1", "/opt/arm/libcuda.so.1", flagAArch64 | flagELFLibc6},
	{"libx32.so.1", "/usr/libx32/libx32.so.1", flagX32 | flagELF},
	{"libold.so", "/usr/lib/libold.so", 2},
}

func TestParseLDCache(t *testing.T) {
	want := []cacheEntry{
		{"libcuda.so.1", "/usr/lib64/libcuda.so.1", 64},
		{"libcuda.so.1", "/usr/lib/libcuda.so.1", 32},
		{"libx32.so.1", "/usr/libx32/libx32.so.1", 32},
	}
	for name, data := range map[string][]byte{
		"new": newCache(testCache), "old": oldCache(testCache), "both": bothCaches(testCache),
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := parseLDCache(data)
			must.NoError(t, err)
			must.Eq(t, want, entries)
		})
	}
}

func TestParseLDCache_damaged(t *testing.T) {
	whole := newCache(testCache)
	tooMany := append([]byte(nil), whole...)
	binary.LittleEndian.PutUint32(tooMany[20:], 1<<30)
	for name, data := range map[string][]byte{
		"empty": nil, "text": []byte("no cache at all"), "cut header": whole[:30], "cut table": whole[:60],
		"more entries than bytes": tooMany, "old cut": oldCache(testCache)[:20],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseLDCache(data)
			must.ErrorIs(t, err, errNoCache)
		})
	}
	// A string that is not ended takes only its entry away.
	entries, err := parseLDCache(whole[:len(whole)-1])
	must.NoError(t, err)
	must.Len(t, 3, entries)
}

// TestParseLDCache_thisMachine reads the cache of the machine, whichever format
// its ldconfig writes.
func TestParseLDCache_thisMachine(t *testing.T) {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if os.IsNotExist(err) {
		return // a machine without a cache has nothing to compare
	}
	must.NoError(t, err)
	entries, err := parseLDCache(data)
	must.NoError(t, err)
	for _, entry := range entries {
		must.True(t, strings.HasPrefix(entry.path, "/"), must.Sprintf("%+v", entry))
	}
}

func FuzzParseLDCache(f *testing.F) {
	f.Add(newCache(testCache))
	f.Add(oldCache(testCache))
	f.Add(bothCaches(testCache))
	f.Add([]byte(newCacheMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseLDCache(data)
		if err != nil && len(entries) > 0 {
			t.Fatal("entries beside an error")
		}
		for _, entry := range entries {
			if entry.soname == "" || entry.path == "" || strings.ContainsRune(entry.path, 0) || entry.bits != 32 && entry.bits != 64 {
				t.Fatalf("impossible entry %+v", entry)
			}
		}
	})
}
