// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestObject reads every property of made files back with debug/elf.
func TestObject(t *testing.T) {
	tag := [4]uint32{0, 2, 3, 99}
	for _, tc := range []struct {
		name    string
		object  simhost.Object
		class   elf.Class
		machine elf.Machine
	}{
		{"64 bit", simhost.Object{Bits: 64, SONAME: "libx.so.1", Needed: []string{"liby.so.2", "libz.so"}, ABITag: &tag}, elf.ELFCLASS64, elf.EM_X86_64},
		{"32 bit", simhost.Object{Bits: 32, SONAME: "libx.so.1", Needed: []string{"liby.so.2", "libz.so"}, ABITag: &tag}, elf.ELFCLASS32, elf.EM_386},
		{"ARM", simhost.Object{Bits: 64, Machine: elf.EM_AARCH64, SONAME: "libx.so.1"}, elf.ELFCLASS64, elf.EM_AARCH64},
		{"bare", simhost.Object{Bits: 32}, elf.ELFCLASS32, elf.EM_386},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := elf.NewFile(bytes.NewReader(tc.object.Bytes()))
			must.NoError(t, err)
			must.Eq(t, tc.class, f.Class)
			must.Eq(t, tc.machine, f.Machine)
			must.Eq(t, elf.ET_DYN, f.Type)
			needed, err := f.ImportedLibraries()
			must.NoError(t, err)
			must.Eq(t, tc.object.Needed, needed)
			sonames, err := f.DynString(elf.DT_SONAME)
			must.NoError(t, err)
			must.Eq(t, tc.object.SONAME, strings.Join(sonames, " "))
			must.Eq(t, tc.object.ABITag, abiTag(t, f))
		})
	}
}

// TestObjectLoads: the dynamic loader takes a library, the kernel a program.
func TestObjectLoads(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libsimhosttest.so.1")
	must.NoError(t, os.WriteFile(library, simhost.Object{Bits: 64, SONAME: "libsimhosttest.so.1", ABITag: &[4]uint32{0, 2, 3, 99}}.Bytes(), 0o600))
	loaded := dl.New(library, dl.RTLD_NOW)
	must.NoError(t, loaded.Open())
	must.NoError(t, loaded.Close())

	h := up(t, "k80x4-352")
	must.NoError(t, exec.CommandContext(t.Context(), filepath.Join(h.Root(), "usr/bin/nvidia-debugdump")).Run())
}

// TestReadelf: binutils' strict reader finds nothing to warn of.
func TestReadelf(t *testing.T) {
	dir := t.TempDir()
	for name, object := range map[string]simhost.Object{
		"64": {Bits: 64, SONAME: "libx.so.1", Needed: []string{"liby.so.2"}, ABITag: &[4]uint32{0, 2, 2, 5}},
		"32": {Bits: 32, SONAME: "libx.so.1", Needed: []string{"liby.so.2"}},
	} {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, object.Bytes(), 0o600))
		cmd := exec.CommandContext(t.Context(), "readelf", "--all", path)
		var warnings bytes.Buffer
		cmd.Stderr = &warnings
		output, err := cmd.Output()
		must.NoError(t, err)
		must.Eq(t, "", warnings.String())
		must.StrContains(t, string(output), "Library soname: [libx.so.1]")
	}
}

// TestLDCache writes both formats and reads them back.
func TestLDCache(t *testing.T) {
	entries := []simhost.CacheEntry{
		{Key: "libcuda.so.1", Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Flags: simhost.CacheX8664},
		{Key: "libcuda.so.1", Path: "/usr/lib/i386-linux-gnu/libcuda.so.1", Flags: simhost.CacheI386},
		{Key: "libnvidia-ml.so.1", Path: "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", Flags: simhost.CacheX8664},
	}
	want := []simhost.CacheEntry{entries[2], entries[0], entries[1]}
	for name, content := range map[string][]byte{"new": simhost.LDCache(entries), "both": simhost.CompatLDCache(entries)} {
		path := filepath.Join(t.TempDir(), name)
		must.NoError(t, os.WriteFile(path, content, 0o600))
		must.Eq(t, want, readCache(t, path))
	}
	// The old part: its offsets count from the end of its entries.
	both := simhost.CompatLDCache(entries)
	must.Eq(t, "ld.so-1.7.0\x00", string(both[:12]))
	must.Eq(t, 3, binary.LittleEndian.Uint32(both[12:]))
	strings3 := both[16+3*12:]
	key := strings3[binary.LittleEndian.Uint32(both[16+4:]):]
	must.Eq(t, "libnvidia-ml.so.1\x00", string(key[:18]))
}
