// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// buildLibrary compiles a small shared object and returns its path.
func buildLibrary(t testing.TB, source string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "lib.so")
	must.NoError(t, os.WriteFile(filepath.Join(dir, "lib.c"), []byte(source), 0o600))
	args = append([]string{"-shared", "-fPIC", "-o", path, filepath.Join(dir, "lib.c")}, args...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
	return path
}

func TestReadELF(t *testing.T) {
	path := buildLibrary(t, `
		__attribute__((section(".note.ABI-tag"), used)) static const unsigned int note[] =
			{4, 16, 1, 0x00554e47, 0, 2, 3, 99};
		int one(void) { return 1; }`, "-Wl,-soname,libone.so.1", "-Wl,--no-as-needed", "-lm")
	facts, err := readELF(path)
	must.NoError(t, err)
	must.Eq(t, 64, facts.bits)
	must.Eq(t, "libone.so.1", facts.soname)
	must.SliceContains(t, facts.needed, "libm.so.6")
	must.Eq(t, &[4]uint32{0, 2, 3, 99}, facts.abiTag)
}

func TestReadELF_without(t *testing.T) {
	facts, err := readELF(buildLibrary(t, "int two;"))
	must.NoError(t, err)
	must.Eq(t, "", facts.soname)
	must.Nil(t, facts.abiTag)
}

func TestReadELF_broken(t *testing.T) {
	whole, err := os.ReadFile(buildLibrary(t, "int three;"))
	must.NoError(t, err)
	foreign := bytes.Clone(whole)
	binary.LittleEndian.PutUint16(foreign[18:], 243) // RISC-V
	for name, tc := range map[string]struct {
		content []byte
		want    error
	}{
		"script":  {[]byte("#!/bin/sh\nexit 0\n"), errNoLibrary},
		"empty":   {nil, errNoLibrary},
		"cut":     {whole[:len(whole)/3], errNoLibrary},
		"foreign": {foreign, errForeignFile},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lib.so")
			must.NoError(t, os.WriteFile(path, tc.content, 0o600))
			_, err := readELF(path)
			must.ErrorIs(t, err, tc.want)
		})
	}
}

func FuzzReadELF(f *testing.F) {
	whole, err := os.ReadFile(buildLibrary(f, "int four;", "-Wl,-soname,libfour.so.1", "-s"))
	must.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:64])
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := elfFactsOf(bytes.NewReader(data), int64(len(data)))
		if (facts == nil) == (err == nil) {
			t.Fatalf("facts %v, error %v", facts, err)
		}
		if facts != nil && facts.bits != 32 && facts.bits != 64 {
			t.Fatalf("bits %d", facts.bits)
		}
	})
}
