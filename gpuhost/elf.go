// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// elfFacts are what the selection of driver files wants to know of an ELF file.
type elfFacts struct {
	bits   int
	soname string
	needed []string
	abiTag *[4]uint32
}

var (
	errNoLibrary   = errors.New("not an ELF shared object")
	errForeignFile = errors.New("built for another machine")
)

// maxNote bounds the size in bytes of the note section that is read; a genuine
// ABI note has 32.
const maxNote = 4096

// readELF reads the facts about a shared object of this machine, 64 or 32 bit.
// The file may be anything: what is not a whole shared object is an error.
func readELF(path string) (facts *elfFacts, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	facts, err = elfFactsOf(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return facts, nil
}

// elfReader is the part of *os.File that reading an ELF file takes.
type elfReader interface {
	ReadAt(p []byte, off int64) (int, error)
}

// elfFactsOf does the work of readELF on a file of the given size in bytes.
func elfFactsOf(r elfReader, size int64) (facts *elfFacts, err error) {
	defer func() {
		// The standard reader is not promised to survive every broken file.
		if r := recover(); r != nil {
			facts, err = nil, fmt.Errorf("%w: %v", errNoLibrary, r)
		}
	}()
	file, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLibrary, err)
	}
	if file.Type != elf.ET_DYN {
		return nil, fmt.Errorf("%w: type %s", errNoLibrary, file.Type)
	}
	if !runnable(file.FileHeader) {
		return nil, fmt.Errorf("%w: %s", errForeignFile, file.Machine)
	}
	if err := checkSegments(file, size); err != nil {
		return nil, err
	}
	facts = &elfFacts{bits: 64, abiTag: abiTag(file)}
	if file.Class == elf.ELFCLASS32 {
		facts.bits = 32
	}
	if sonames, err := file.DynString(elf.DT_SONAME); err == nil && len(sonames) > 0 {
		facts.soname = sonames[0]
	}
	if facts.needed, err = file.DynString(elf.DT_NEEDED); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLibrary, err)
	}
	return facts, nil
}

// runnable says whether this machine loads such a file, natively or, on x86-64,
// as its 32-bit sibling.
func runnable(header elf.FileHeader) bool {
	switch runtime.GOARCH {
	case "amd64":
		return header.Machine == elf.EM_X86_64 || header.Machine == elf.EM_386 && header.Class == elf.ELFCLASS32
	case "arm64":
		return header.Machine == elf.EM_AARCH64
	case "ppc64le":
		return header.Machine == elf.EM_PPC64
	}
	return false
}

// checkSegments refuses a file that ends before its segments do: the loader maps
// such a file without a word, and the first access to the missing part kills the
// process.
func checkSegments(file *elf.File, size int64) error {
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_LOAD {
			continue
		}
		if segment.Off > uint64(size) || segment.Filesz > uint64(size)-segment.Off {
			return fmt.Errorf("%w: cut after %d bytes", errNoLibrary, size)
		}
	}
	return nil
}

// abiTag reads the OS and kernel version of the .note.ABI-tag section; nil
// without one.
func abiTag(file *elf.File) *[4]uint32 {
	section := file.Section(".note.ABI-tag")
	if section == nil || section.Type == elf.SHT_NOBITS || section.Size > maxNote {
		return nil
	}
	note, err := section.Data()
	if err != nil {
		return nil
	}
	return parseABINote(note, file.ByteOrder)
}

// parseABINote reads a GNU ABI note: name size, content size, type, the name
// "GNU", then four words.
func parseABINote(note []byte, order binary.ByteOrder) *[4]uint32 {
	const header, name, words = 12, "GNU\x00", 16
	if len(note) < header+len(name)+words || order.Uint32(note) != uint32(len(name)) ||
		order.Uint32(note[4:]) < words || string(note[header:header+len(name)]) != name {
		return nil
	}
	var tag [4]uint32
	for i := range tag {
		tag[i] = order.Uint32(note[header+len(name)+4*i:])
	}
	return &tag
}
