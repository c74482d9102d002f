// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bufio"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// elfFact is one file of a genuine driver, measured once (driver-files §1).
type elfFact struct {
	Driver, Arch, Path, Kind, Target, SONAME string
	Size                                     int64
	Bits                                     int
	Needed                                   []string
	ABINote                                  string `json:"abi_note"`
}

func readFacts(t *testing.T) map[string][]elfFact {
	f, err := os.Open("testdata/driver-elf.jsonl")
	must.NoError(t, err)
	defer f.Close()
	facts := map[string][]elfFact{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e elfFact
		must.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		facts[e.Driver] = append(facts[e.Driver], e)
	}
	must.NoError(t, lines.Err())
	return facts
}

// abiTag turns "2.3.99" into the numbers of the note, Linux before them.
func abiTag(note string) *[4]uint32 {
	if note == "" {
		return nil
	}
	tag := &[4]uint32{}
	for i, part := range strings.Split(note, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || i > 2 {
			return nil
		}
		tag[i+1] = uint32(n)
	}
	return tag
}

// driverOf makes of the facts what a search on the host would find.
func driverOf(version string, facts []elfFact) *gpuhost.DriverFiles {
	d := &gpuhost.DriverFiles{Version: version}
	for _, e := range facts {
		name := path.Base(e.Path)
		switch e.Kind {
		case "lib", "xmodule":
			d.Libraries = append(d.Libraries, gpuhost.Library{Path: e.Path, Name: name, SONAME: e.SONAME, Bits: e.Bits, Needed: e.Needed, ABITag: abiTag(e.ABINote)})
		case "bin":
			d.Binaries = append(d.Binaries, gpuhost.Binary{Path: e.Path, Name: name})
		}
	}
	for _, e := range facts {
		if e.Kind != "link" {
			continue
		}
		for i := range d.Libraries {
			if l := &d.Libraries[i]; filepath.Join(path.Dir(e.Path), path.Base(e.Target)) == l.Path {
				l.Links = append(l.Links, path.Base(e.Path))
			}
		}
	}
	return d
}

// TestGenuineFacts chooses from the facts of seven drivers.
func TestGenuineFacts(t *testing.T) {
	facts := readFacts(t)
	for _, tc := range []struct {
		version, with, without string // names in the tree, V for the version
	}{
		{"340.108", "lib64/libcuda.so.1 lib64/libGL.so.V lib64/libEGL.so.V lib64/libnvidia-compiler.so.V lib64/libnvidia-tls.so.V", "libglx xserver"},
		{"390.157", "lib64/libnvidia-fatbinaryloader.so.V lib64/libnvidia-ptxjitcompiler.so.1 lib64/libnvidia-cfg.so.1 lib64/libGLX_indirect.so.0", "libGL.so libglx libnvidia-wfb"},
		{"418.226.00", "lib64/libnvidia-fatbinaryloader.so.V lib64/libnvidia-cbl.so.V lib64/libnvidia-glvkspirv.so.V", "libGL.so glxserver"},
		{"450.248.02", "lib64/libnvidia-allocator.so.1 lib64/libnvidia-opticalflow.so lib64/libnvidia-ngx.so.1 lib64/libnvidia-rtcore.so.V", "fatbinaryloader glxserver"},
		{"470.256.02", "lib64/libnvidia-nvvm.so.4.0.0 lib64/libnvidia-nvvm.so.4 lib64/libnvidia-vulkan-producer.so.V lib64/libnvidia-vulkan-producer.so", "glxserver"},
		{"535.261.03", "lib64/libnvidia-nvvm.so.V lib64/libcudadebugger.so.1 lib/libcuda.so.1 lib/libnvidia-nvvm.so.4 lib64/libnvidia-pkcs11-openssl3.so.V", "glxserver firmware gsp"},
		{"550.163.01", "lib64/libnvidia-gpucomp.so.V lib/libnvidia-gpucomp.so.V lib64/gbm/nvidia-drm_gbm.so lib/gbm/nvidia-drm_gbm.so lib64/libnvidia-cfg.so.1 bin/nvidia-cuda-mps-server", "glxserver modprobe powerd OpenCL.so libnvidia-api"},
	} {
		t.Run(tc.version, func(t *testing.T) {
			all, err := parseCapabilities([]string{"all"})
			must.NoError(t, err)
			p, err := choose(driverOf(tc.version, facts[tc.version]), all, noTwins)
			must.NoError(t, err)
			tree := p.names()
			for name := range strings.FieldsSeq(strings.ReplaceAll(tc.with, "V", tc.version)) {
				must.RegexMatch(t, nameInListing(name), tree)
			}
			for name := range strings.FieldsSeq(tc.without) {
				must.StrNotContains(t, tree, name)
			}
			checkSizes(t, tc.version, p, facts[tc.version])
		})
	}
}

// nameInListing matches a whole name of plan.names.
func nameInListing(name string) *regexp.Regexp {
	return regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + "( ->|$)")
}

// checkSizes compares what the capabilities of the 550 driver hold with what
// was measured (driver-files §1): compute 222, graphics 212, video 12, ngx 4.6,
// utility 2.5 MB of 64-bit libraries.
func checkSizes(t *testing.T, version string, p *plan, facts []elfFact) {
	if version != v550 {
		return
	}
	sizes := map[string]int64{}
	for _, e := range facts {
		sizes[e.Path] = e.Size
	}
	sums := map[string]float64{}
	for _, f := range p.files {
		if strings.HasPrefix(f.name, "lib64/") {
			sums[f.capability] += float64(sizes[f.source]) / 1e6
		}
	}
	for capability, want := range map[string]float64{"compute": 222, "graphics": 212, "video": 12, "ngx": 4.6, "utility": 2.5} {
		must.InDelta(t, want, sums[capability], want*0.05+0.1, must.Sprint(capability))
	}
}
