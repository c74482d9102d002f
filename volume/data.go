// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// shareDir holds the driver's configuration and data files in the tree.
const shareDir = "share"

// maxConfigBytes bounds a configuration file; NVIDIA's have a few hundred bytes.
const maxConfigBytes = 1 << 20

// configDirs has the directories of configuration files and the capability each serves.
var configDirs = map[string]capSet{
	"vulkan/icd.d":                graphics, // which Vulkan drivers there are
	"vulkan/implicit_layer.d":     graphics, // layer that chooses a GPU on machines with two vendors
	"glvnd/egl_vendor.d":          graphics, // which EGL vendors there are
	"egl/egl_external_platform.d": graphics, // EGL on GBM, Wayland and X11
	"OpenCL/vendors":              compute,  // which OpenCL drivers there are
}

// optixData is what OptiX loads beside its library.
const optixData = "nvidia/nvoptix.bin"

// classifyData gives the capability that a data file serves; none if it stays
// out. Other vendors' files lie in the same directories.
func classifyData(name string) capSet {
	if name == optixData {
		return graphics
	}
	if !filepath.IsLocal(name) || !strings.Contains(path.Base(name), "nvidia") {
		return 0
	}
	return configDirs[path.Dir(name)]
}

// placeData puts the data files below share. A configuration file that names a
// library by an absolute path of the host is rewritten to the bare name, which
// the loader of the container finds.
func (s *selection) placeData(p *plan) error {
	placed := map[string]bool{}
	for _, d := range s.files.Data {
		caps := classifyData(d.Name) & s.caps
		if caps == 0 || placed[d.Name] {
			continue
		}
		content, err := portableConfig(d)
		if err != nil {
			return err
		}
		placed[d.Name] = true
		p.files = append(p.files, planFile{
			name: path.Join(shareDir, d.Name), source: d.Path, capability: caps.first(), content: content,
		})
		if d.Name == optixData {
			p.links = append(p.links, planLink{name: "lib64/nvoptix.bin", target: path.Join("..", shareDir, optixData)})
		}
	}
	s.expectConfigs(p, placed)
	return nil
}

// expectConfigs notes where a chosen library has no configuration file at all; its
// name may be another than the usual one.
func (s *selection) expectConfigs(p *plan, placed map[string]bool) {
	if branch(s.files.Version) < configsSince {
		return
	}
	dirs := map[string]bool{}
	for name := range placed {
		dirs[path.Dir(name)] = true
	}
	for _, expected := range expectedConfigs {
		if s.choseLibrary(expected.library) && !dirs[path.Dir(expected.name)] {
			p.missing = append(p.missing, path.Join(shareDir, expected.name))
		}
	}
}

// choseLibrary says whether the 64-bit library of a stem is in the volume.
func (s *selection) choseLibrary(stem string) bool {
	for l := range s.chosen {
		if found, _, _ := splitLibrary(l.Name); found == stem && l.Bits == 64 {
			return true
		}
	}
	return false
}

var libraryPath = regexp.MustCompile(`("library_path"\s*:\s*")/[^"]*/([^"/]+")`)

// portableConfig gives the content that a container can use, nil when that is
// the file as it is.
func portableConfig(d gpuhost.DataFile) ([]byte, error) {
	ext := path.Ext(d.Name)
	if ext != ".json" && ext != ".icd" {
		return nil, nil
	}
	if fi, err := os.Stat(d.Path); err == nil && fi.Size() > maxConfigBytes {
		return nil, fmt.Errorf("driver file %q has %d bytes, too many for a configuration file; reinstall the driver's package", d.Path, fi.Size())
	}
	old, err := os.ReadFile(d.Path)
	if err != nil {
		return nil, fmt.Errorf("read driver file: %w", err)
	}
	changed := old
	if ext == ".json" {
		changed = libraryPath.ReplaceAll(old, []byte("${1}${2}"))
	} else if line := strings.TrimSpace(string(old)); path.IsAbs(line) {
		changed = []byte(path.Base(line) + "\n")
	}
	if bytes.Equal(old, changed) {
		return nil, nil
	}
	return changed, nil
}
