// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestTree runs nvidia-docker's selection (nvidia-docker-v1 VF-2 to VF-7) on the
// hosts of the golden trees.
func TestTree(t *testing.T) {
	for _, tc := range []struct{ profile, version string }{
		{"k80x4-352", "352.39"},
		{"titanx4-361", "361.48"},
		{"testdata/fixtures/zero-340.29.json", "340.29"},
	} {
		t.Run(tc.version, func(t *testing.T) {
			want, err := os.ReadFile("testdata/tree-" + tc.version + ".txt")
			must.NoError(t, err)
			must.Eq(t, strings.Fields(strings.ReplaceAll(string(want), " -> ", "->")), v1Tree(t, up(t, tc.profile)))
		})
	}
}

var (
	v1Libraries = strings.Fields(`libnvidia-ml libcuda libnvidia-ptxjitcompiler libnvidia-fatbinaryloader libnvidia-opencl libnvidia-compiler
		libvdpau_nvidia libnvidia-encode libnvcuvid libnvidia-fbc libnvidia-ifr libGL libGLX libOpenGL libGLESv1_CM libGLESv2 libEGL libGLdispatch
		libGLX_nvidia libEGL_nvidia libGLESv2_nvidia libGLESv1_CM_nvidia libnvidia-eglcore libnvidia-egl-wayland libnvidia-glcore libnvidia-tls libnvidia-glsi`)
	v1Tools   = strings.Fields("nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-debugdump nvidia-persistenced nvidia-smi")
	loaders   = regexp.MustCompile(`^lib(EGL|GLESv1_CM|GLESv2|GL)\.so[0-9.]*$`)
	nvidiaDep = regexp.MustCompile(`^lib(nvidia-glcore|nvidia-eglcore|GLdispatch)\.so`)
)

// TestDriverList installs the files of a list instead of those of the table.
func TestDriverList(t *testing.T) {
	for _, version := range []string{"352.39", "375.26"} {
		list, err := filepath.Abs("testdata/driver-files-" + version + ".json")
		must.NoError(t, err)
		h := up(t, profileFile(t, `{"driver_version":"`+version+`","cuda_driver_version":8000,"driver_files":"`+list+`",
			"devices":[{"nvml":{"name":"Listed","uuid":"GPU-1","minor":0}}]}`))
		want, err := os.ReadFile("testdata/tree-" + version + ".txt")
		must.NoError(t, err)
		must.Eq(t, strings.Fields(strings.ReplaceAll(string(want), " -> ", "->")), v1Tree(t, h))
		if version == "352.39" { // elsewhere nvidia-smi is a link for a root of its own
			must.Eq(t, "GPU 0: Listed (UUID: GPU-1)\n", smi(t, h, "-L"))
		}
		must.NoError(t, h.Upgrade("999.1"))
		tree := strings.Join(v1Tree(t, h), " ")
		must.StrContains(t, tree, "lib64/libcuda.so.999.1")
		must.StrNotContains(t, tree, version)
	}
	_, err := simhost.LoadProfile(profileFile(t, `{"driver_version":"1.2","driver_files":"none.json"}`), "")
	must.ErrorIs(t, err, os.ErrNotExist)
}

// v1Tree lists the tree that nvidia-docker made, in the order of bytes.
func v1Tree(t *testing.T, h *simhost.Host) []string {
	tree := []string{"bin/", "lib/", "lib64/"}
	for _, tool := range v1Tools {
		if _, err := os.Lstat(filepath.Join(h.Root(), "usr/bin", tool)); err == nil {
			tree = append(tree, "bin/"+tool)
		}
	}
	taken := map[string]bool{}
	for _, entry := range readCache(t, filepath.Join(h.Root(), "etc/ld.so.cache")) {
		name, _, _ := strings.Cut(entry.Key, ".so")
		path, err := filepath.EvalSymlinks(filepath.Join(h.Root(), entry.Path))
		dir, ok := map[uint32]string{simhost.CacheX8664: "lib64/", simhost.CacheI386: "lib/"}[entry.Flags]
		if !ok || os.IsNotExist(err) {
			continue // another machine's, or stale
		}
		must.NoError(t, err)
		base := filepath.Base(path)
		if !slices.Contains(v1Libraries, name) || taken[dir+base] || !v1Takes(t, path) {
			continue
		}
		taken[dir+base] = true
		tree = append(tree, dir+base)
		for _, link := range v1Links(t, path) {
			if link != base {
				tree = append(tree, dir+link+"->"+base)
			}
		}
	}
	slices.Sort(tree)
	return tree
}

func v1Takes(t *testing.T, path string) bool {
	f := openELF(t, path)
	base := filepath.Base(path)
	if loaders.MatchString(base) {
		needed, err := f.ImportedLibraries()
		must.NoError(t, err)
		return slices.ContainsFunc(needed, nvidiaDep.MatchString)
	}
	if strings.HasPrefix(base, "libnvidia-tls.so") {
		tag := abiTag(t, f)
		return tag == nil || *tag == [4]uint32{0, 2, 3, 99}
	}
	return true
}

func v1Links(t *testing.T, path string) []string {
	sonames, err := openELF(t, path).DynString(elf.DT_SONAME)
	must.NoError(t, err)
	var links []string
	for _, s := range sonames {
		links = append(links, s)
		if strings.HasPrefix(s, "libcuda") {
			links = append(links, "libcuda.so")
		}
		if rest, ok := strings.CutPrefix(s, "libGLX_nvidia"); ok {
			links = append(links, "libGLX_indirect"+rest)
		}
	}
	return links
}

func openELF(t *testing.T, path string) *elf.File {
	t.Helper()
	f, err := elf.Open(path)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, f.Close()) })
	return f
}

// abiTag reads the note of a file; nil without one.
func abiTag(t *testing.T, f *elf.File) *[4]uint32 {
	section := f.Section(".note.ABI-tag")
	if section == nil {
		return nil
	}
	data, err := section.Data()
	must.NoError(t, err)
	var tag [4]uint32
	_, err = binary.Decode(data[16:], binary.LittleEndian, &tag)
	must.NoError(t, err)
	return &tag
}

// readCache is a reader of the new format of ld.so.cache (driver-files §4), also
// behind an old part.
func readCache(t *testing.T, path string) []simhost.CacheEntry {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	start := strings.Index(string(data), "glibc-ld.so.cache1.1")
	must.GreaterEq(t, 0, start)
	must.Eq(t, 0, start%8)
	data = data[start:]
	text := func(at uint32) string {
		s, _, _ := strings.Cut(string(data[at:]), "\x00")
		return s
	}
	var entries []simhost.CacheEntry
	for i := range binary.LittleEndian.Uint32(data[20:]) {
		entry := data[48+24*i:]
		entries = append(entries, simhost.CacheEntry{
			Flags: binary.LittleEndian.Uint32(entry),
			Key:   text(binary.LittleEndian.Uint32(entry[4:])),
			Path:  text(binary.LittleEndian.Uint32(entry[8:])),
		})
	}
	return entries
}
