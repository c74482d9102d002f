// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"path"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// placeBinaries puts the tools into bin under their plain names.
func (s *selection) placeBinaries(p *plan) {
	placed := map[string]bool{}
	for _, b := range s.files.Binaries {
		caps := binaryRules[b.Name] & s.caps
		if caps == 0 || placed[b.Name] {
			continue
		}
		placed[b.Name] = true
		p.files = append(p.files, planFile{name: "bin/" + b.Name, source: b.Path, capability: caps.first()})
	}
	if s.caps&utility != 0 && !placed["nvidia-smi"] {
		p.missing = append(p.missing, "bin/nvidia-smi")
	}
}

// placeLibraries puts the libraries under their base names into lib and lib64,
// then the links. A link never takes a name that is there (VF-7).
func (s *selection) placeLibraries(p *plan) {
	taken := map[string]bool{}
	for _, c := range s.ours {
		caps := s.chosen[c.Library]
		if caps == 0 {
			continue
		}
		name := libDir(c.Library) + "/" + c.Name
		taken[name] = true
		p.files = append(p.files, planFile{name: name, source: c.Path, capability: caps.first()})
	}
	for _, names := range []func(*gpuhost.Library) []string{sonameLinks, specialLinks, hostLinks} {
		for _, c := range s.ours {
			if s.chosen[c.Library] == 0 {
				continue
			}
			for _, link := range names(c.Library) {
				name := libDir(c.Library) + "/" + link
				if taken[name] || strings.HasPrefix(link, "gbm/") && s.caps&graphics == 0 {
					continue
				}
				taken[name] = true
				target := strings.Repeat("../", strings.Count(link, "/")) + c.Name
				p.links = append(p.links, planLink{name: name, target: target})
			}
		}
	}
}

// sonameLinks is the link that the loader looks for.
func sonameLinks(l *gpuhost.Library) []string {
	if l.SONAME == "" || l.SONAME != path.Base(l.SONAME) || l.SONAME == l.Name {
		return nil
	}
	return []string{l.SONAME}
}

// specialLinks are names under which programs open a library although no
// SONAME tells them; NVIDIA's own tools make them too.
func specialLinks(l *gpuhost.Library) []string {
	stem, _, _ := splitLibrary(l.Name)
	switch stem {
	case "libcuda", "libnvidia-opticalflow", "libnvidia-vulkan-producer":
		return []string{stem + ".so"}
	case "libGLX_nvidia":
		if suffix, ok := strings.CutPrefix(l.SONAME, "libGLX_nvidia.so."); ok && suffix == path.Base(suffix) {
			return []string{"libGLX_indirect.so." + suffix}
		}
	case "libnvidia-allocator":
		return []string{"gbm/nvidia-drm_gbm.so"}
	}
	return nil
}

// hostLinks are the links of the same stem that the host has, "libnvidia-ml.so".
func hostLinks(l *gpuhost.Library) []string {
	stem, _, _ := splitLibrary(l.Name)
	var links []string
	for _, link := range l.Links {
		if s, _, ok := splitLibrary(link); ok && s == stem && link == path.Base(link) {
			links = append(links, link)
		}
	}
	return links
}
