// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// elfSpec is what a made ELF shared object shall tell about itself.
type elfSpec struct {
	bits   int
	soname string
	needed []string
	abiTag *[4]uint32
}

// bytes makes the object: a header, the sections that readers of shared
// objects look at, and nothing else.
func (e elfSpec) bytes() []byte {
	w := &elfWriter{bits: e.bits}
	strs := &stringTable{data: []byte{0}}
	var dyn []uint64
	if e.soname != "" {
		dyn = append(dyn, uint64(elf.DT_SONAME), strs.add(e.soname))
	}
	for _, n := range e.needed {
		dyn = append(dyn, uint64(elf.DT_NEEDED), strs.add(n))
	}
	dyn = append(dyn, uint64(elf.DT_NULL), 0)
	w.section("", elf.SHT_NULL, 0, nil)
	w.section(".dynstr", elf.SHT_STRTAB, 0, strs.data)
	w.section(".dynamic", elf.SHT_DYNAMIC, 1, w.words(dyn...))
	if e.abiTag != nil {
		note := binary.LittleEndian.AppendUint32(nil, 4) // name
		note = binary.LittleEndian.AppendUint32(note, 16)
		note = binary.LittleEndian.AppendUint32(note, 1) // NT_GNU_ABI_TAG
		note = append(note, "GNU\x00"...)
		for _, v := range e.abiTag {
			note = binary.LittleEndian.AppendUint32(note, v)
		}
		w.section(".note.ABI-tag", elf.SHT_NOTE, 0, note)
	}
	return w.finish()
}

type stringTable struct{ data []byte }

func (t *stringTable) add(s string) uint64 {
	at := uint64(len(t.data))
	t.data = append(append(t.data, s...), 0)
	return at
}

type elfWriter struct {
	bits  int
	body  []byte
	names stringTable
	heads [][]uint64 // name, type, offset, size, link
}

func (w *elfWriter) headerSize() int {
	if w.bits == 32 {
		return 52
	}
	return 64
}

// words encodes numbers in the size of an address.
func (w *elfWriter) words(values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		if w.bits == 32 {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		} else {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

func (w *elfWriter) section(name string, kind elf.SectionType, link uint64, data []byte) {
	for len(w.body)%8 != 0 {
		w.body = append(w.body, 0)
	}
	w.heads = append(w.heads, []uint64{w.names.add(name), uint64(kind), uint64(w.headerSize() + len(w.body)), uint64(len(data)), link})
	w.body = append(w.body, data...)
}

func (w *elfWriter) finish() []byte {
	w.section(".shstrtab", elf.SHT_STRTAB, 0, nil)
	w.heads[len(w.heads)-1][3] = uint64(len(w.names.data))
	w.body = append(w.body, w.names.data...)
	for len(w.body)%8 != 0 {
		w.body = append(w.body, 0)
	}
	class, machine, entry := elf.ELFCLASS64, elf.EM_X86_64, 64
	if w.bits == 32 {
		class, machine, entry = elf.ELFCLASS32, elf.EM_386, 40
	}
	var h bytes.Buffer
	h.Write([]byte{0x7f, 'E', 'L', 'F', byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT), 0, 0, 0, 0, 0, 0, 0, 0, 0})
	half := func(v int) { h.Write(binary.LittleEndian.AppendUint16(nil, uint16(v))) }
	half(int(elf.ET_DYN))
	half(int(machine))
	h.Write(binary.LittleEndian.AppendUint32(nil, 1))
	h.Write(w.words(0, 0, uint64(w.headerSize()+len(w.body)))) // entry, program headers, section headers
	h.Write(make([]byte, 4))
	half(w.headerSize())
	half(0)
	half(0)
	half(entry)
	half(len(w.heads))
	half(len(w.heads) - 1)
	h.Write(w.body)
	for _, s := range w.heads {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(s[0])))
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(s[1])))
		h.Write(w.words(0, 0, s[2], s[3]))
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(s[4])))
		h.Write(make([]byte, 4))
		align := uint64(1)
		size := uint64(0)
		if elf.SectionType(s[1]) == elf.SHT_DYNAMIC {
			size = uint64(w.bits / 4)
		}
		h.Write(w.words(align, size))
	}
	return h.Bytes()
}

func TestELFFixtureIsReadable(t *testing.T) {
	for _, bits := range []int{32, 64} {
		spec := elfSpec{bits: bits, soname: "libx.so.1", needed: []string{"liba.so", "libb.so.2"}, abiTag: &[4]uint32{0, 2, 3, 99}}
		name := filepath.Join(t.TempDir(), "libx.so.1.2")
		must.NoError(t, os.WriteFile(name, spec.bytes(), 0o644))
		f, err := elf.Open(name)
		must.NoError(t, err)
		needed, err := f.ImportedLibraries()
		must.NoError(t, err)
		must.Eq(t, spec.needed, needed)
		soname, err := f.DynString(elf.DT_SONAME)
		must.NoError(t, err)
		must.Eq(t, "libx.so.1", strings.Join(soname, ","))
		note, err := f.Section(".note.ABI-tag").Data()
		must.NoError(t, err)
		must.Len(t, 32, note)
		must.NoError(t, f.Close())
	}
}
