// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Object describes an ELF file by what a driver's files are told apart by. The
// file made from it is a true shared object, or a program if Program is set:
// sections, dynamic entries and notes are there for readers of all kinds, and
// the dynamic loader accepts a 64-bit one. It has no code beyond an exit.
type Object struct {
	Bits    int // 32 (i386) or 64 (x86-64)
	Machine elf.Machine
	SONAME  string // none if empty
	Needed  []string
	ABITag  *[4]uint32 // OS and version of .note.ABI-tag; nil for none
	Program bool
}

// Bytes is the file. The same object gives the same bytes.
func (o Object) Bytes() []byte {
	w := elfWriter{object: o, order: binary.LittleEndian}
	return w.build()
}

// elfWriter lays a file out: header, program headers, then the sections in one
// loadable segment whose addresses equal file offsets, then section headers.
type elfWriter struct {
	object   Object
	order    binary.ByteOrder
	out      bytes.Buffer
	sections []elfSection
}

type elfSection struct {
	name         string
	kind         elf.SectionType
	flags        elf.SectionFlag
	offset, size uint64
	link, info   uint32
	entry, align uint64
}

func (w *elfWriter) wide() bool { return w.object.Bits == 64 }

// word writes a value of the class's address size.
func (w *elfWriter) word(b *bytes.Buffer, values ...uint64) {
	for _, v := range values {
		if w.wide() {
			_ = binary.Write(b, w.order, v)
		} else {
			_ = binary.Write(b, w.order, uint32(v))
		}
	}
}

const (
	programHeaders = 4 // LOAD, DYNAMIC, NOTE, GNU_STACK
	exitCode64     = "\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05"
	exitCode32     = "\xb8\x01\x00\x00\x00\x31\xdb\xcd\x80"
)

func (w *elfWriter) build() []byte {
	headerSize, phSize, shSize := 52, 32, 40
	if w.wide() {
		headerSize, phSize, shSize = 64, 56, 64
	}
	w.out.Write(make([]byte, headerSize+programHeaders*phSize))
	w.addContents()
	names := w.sectionNames()
	shOffset := w.out.Len()
	w.out.Write(w.sectionHeaders(names, shSize))
	file := w.out.Bytes()
	copy(file, w.header(uint64(shOffset), headerSize, phSize, shSize))
	copy(file[headerSize:], w.programHeaders(uint64(shOffset)))
	return file
}

// add appends one section, aligned.
func (w *elfWriter) add(s elfSection, content []byte) *elfSection {
	for uint64(w.out.Len())%s.align != 0 {
		w.out.WriteByte(0)
	}
	s.offset, s.size = uint64(w.out.Len()), uint64(len(content))
	w.out.Write(content)
	w.sections = append(w.sections, s)
	return &w.sections[len(w.sections)-1]
}

func (w *elfWriter) find(name string) elfSection {
	for _, s := range w.sections {
		if s.name == name {
			return s
		}
	}
	return elfSection{}
}

// Numbers of sections that others link to: 0 is the null section.
const dynstrIndex, dynsymIndex = 1, 2

func (w *elfWriter) addContents() {
	symbolSize := uint64(16)
	if w.wide() {
		symbolSize = 24
	}
	strings, offsets := w.dynamicStrings()
	w.add(elfSection{name: ".dynstr", kind: elf.SHT_STRTAB, flags: elf.SHF_ALLOC, align: 1}, strings)
	w.add(elfSection{name: ".dynsym", kind: elf.SHT_DYNSYM, flags: elf.SHF_ALLOC, align: 8, link: dynstrIndex, info: 1, entry: symbolSize}, make([]byte, symbolSize))
	// One bucket, one chain entry (the null symbol): a table without symbols.
	var hash bytes.Buffer
	_ = binary.Write(&hash, w.order, []uint32{1, 1, 0, 0})
	w.add(elfSection{name: ".hash", kind: elf.SHT_HASH, flags: elf.SHF_ALLOC, align: 8, link: dynsymIndex, entry: 4}, hash.Bytes())
	if w.object.ABITag != nil {
		w.add(elfSection{name: ".note.ABI-tag", kind: elf.SHT_NOTE, flags: elf.SHF_ALLOC, align: 4}, w.note())
	}
	code := exitCode32
	if w.wide() {
		code = exitCode64
	}
	w.add(elfSection{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, align: 16}, []byte(code))
	w.add(elfSection{name: ".dynamic", kind: elf.SHT_DYNAMIC, flags: elf.SHF_ALLOC, align: 8, link: dynstrIndex, entry: symbolSize * 2 / 3}, w.dynamic(offsets))
}

func (w *elfWriter) dynamicStrings() ([]byte, map[string]uint64) {
	table, offsets := []byte{0}, map[string]uint64{}
	for _, s := range append([]string{w.object.SONAME}, w.object.Needed...) {
		if _, ok := offsets[s]; s == "" || ok {
			continue
		}
		offsets[s] = uint64(len(table))
		table = append(append(table, s...), 0)
	}
	return table, offsets
}

func (w *elfWriter) note() []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, w.order, []uint32{4, 16, 1})
	b.WriteString("GNU\x00")
	_ = binary.Write(&b, w.order, *w.object.ABITag)
	return b.Bytes()
}

func (w *elfWriter) dynamic(offsets map[string]uint64) []byte {
	var b bytes.Buffer
	for _, n := range w.object.Needed {
		w.word(&b, uint64(elf.DT_NEEDED), offsets[n])
	}
	if w.object.SONAME != "" {
		w.word(&b, uint64(elf.DT_SONAME), offsets[w.object.SONAME])
	}
	strings, symbols := w.find(".dynstr"), w.find(".dynsym")
	w.word(&b,
		uint64(elf.DT_HASH), w.find(".hash").offset,
		uint64(elf.DT_STRTAB), strings.offset,
		uint64(elf.DT_SYMTAB), symbols.offset,
		uint64(elf.DT_STRSZ), strings.size,
		uint64(elf.DT_SYMENT), symbols.entry,
		uint64(elf.DT_NULL), 0)
	return b.Bytes()
}

// sectionNames appends the table of section names and returns where each begins.
func (w *elfWriter) sectionNames() map[string]uint32 {
	const own = ".shstrtab"
	table, offsets := []byte{0}, map[string]uint32{}
	for _, s := range append(w.sections, elfSection{name: own}) {
		offsets[s.name] = uint32(len(table))
		table = append(append(table, s.name...), 0)
	}
	w.add(elfSection{name: own, kind: elf.SHT_STRTAB, align: 1}, table)
	for w.out.Len()%8 != 0 {
		w.out.WriteByte(0)
	}
	return offsets
}

func (w *elfWriter) sectionHeaders(names map[string]uint32, size int) []byte {
	var b bytes.Buffer
	b.Write(make([]byte, size)) // the null section
	for _, s := range w.sections {
		_ = binary.Write(&b, w.order, []uint32{names[s.name], uint32(s.kind)})
		address := s.offset
		if s.flags&elf.SHF_ALLOC == 0 {
			address = 0
		}
		w.word(&b, uint64(s.flags), address, s.offset, s.size)
		_ = binary.Write(&b, w.order, []uint32{s.link, s.info})
		w.word(&b, s.align, s.entry)
	}
	return b.Bytes()
}

func (w *elfWriter) header(shOffset uint64, headerSize, phSize, shSize int) []byte {
	class, machine, kind := elf.ELFCLASS32, elf.EM_386, elf.ET_DYN
	if w.wide() {
		class, machine = elf.ELFCLASS64, elf.EM_X86_64
	}
	if w.object.Machine != elf.EM_NONE {
		machine = w.object.Machine
	}
	entry := uint64(0)
	if w.object.Program {
		entry = w.find(".text").offset
	}
	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)})
	b.Write(make([]byte, 9))
	_ = binary.Write(&b, w.order, []uint16{uint16(kind), uint16(machine)})
	_ = binary.Write(&b, w.order, uint32(elf.EV_CURRENT))
	w.word(&b, entry, uint64(headerSize), shOffset)
	_ = binary.Write(&b, w.order, uint32(0))
	_ = binary.Write(&b, w.order, []uint16{uint16(headerSize), uint16(phSize), programHeaders,
		uint16(shSize), uint16(len(w.sections) + 1), uint16(len(w.sections))})
	return b.Bytes()
}

func (w *elfWriter) programHeaders(end uint64) []byte {
	var b bytes.Buffer
	dynamic, note := w.find(".dynamic"), w.find(".note.ABI-tag")
	noteKind := elf.PT_NOTE
	if w.object.ABITag == nil {
		noteKind = elf.PT_NULL
	}
	for _, p := range []struct {
		kind         elf.ProgType
		flags        elf.ProgFlag
		offset, size uint64
		align        uint64
	}{
		{elf.PT_LOAD, elf.PF_R | elf.PF_W | elf.PF_X, 0, end, 0x1000},
		{elf.PT_DYNAMIC, elf.PF_R | elf.PF_W, dynamic.offset, dynamic.size, 8},
		{noteKind, elf.PF_R, note.offset, note.size, 4},
		{elf.PT_GNU_STACK, elf.PF_R | elf.PF_W, 0, 0, 16},
	} {
		_ = binary.Write(&b, w.order, uint32(p.kind))
		if w.wide() {
			_ = binary.Write(&b, w.order, uint32(p.flags))
		}
		w.word(&b, p.offset, p.offset, p.offset, p.size, p.size)
		if !w.wide() {
			_ = binary.Write(&b, w.order, uint32(p.flags))
		}
		w.word(&b, p.align)
	}
	return b.Bytes()
}
