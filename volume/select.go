// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// selection is the work of choosing one volume's files from a driver's.
type selection struct {
	files   *gpuhost.DriverFiles
	caps    capSet
	same    func(a, b string) (bool, error) // do two files have the same content?
	ours    []candidate                     // what a volume may hold, each name of a class once
	chosen  map[*gpuhost.Library]capSet
	missing []string
}

// candidate is a library that a volume may hold and the capabilities it serves.
type candidate struct {
	*gpuhost.Library
	caps capSet
}

// choose makes the plan of a volume (driver-files §7). It fails when the files
// found cannot be one working driver, naming the files.
func choose(files *gpuhost.DriverFiles, caps capSet, same func(a, b string) (bool, error)) (*plan, error) {
	s := &selection{files: files, caps: caps, same: same, chosen: map[*gpuhost.Library]capSet{}}
	for _, step := range []func() error{s.candidates, s.required, s.pick, s.close} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p := &plan{version: files.Version, missing: s.missing}
	s.placeBinaries(p)
	s.placeLibraries(p)
	if err := s.placeData(p); err != nil {
		return nil, err
	}
	p.sort()
	return p, nil
}

// candidates collects the libraries that are this driver's. The first file of a
// name wins, in the order the host's own loader would find them.
func (s *selection) candidates() error {
	seen := map[string]*gpuhost.Library{}
	for i := range s.files.Libraries {
		l := &s.files.Libraries[i]
		caps := s.classify(l)
		if caps == 0 {
			continue
		}
		key := libDir(l) + "/" + l.Name
		if first := seen[key]; first != nil {
			if err := s.duplicate(first, l); err != nil {
				return err
			}
			continue
		}
		seen[key] = l
		s.ours = append(s.ours, candidate{l, caps})
	}
	return nil
}

// classify gives the capabilities that a library serves; none if it stays out.
func (s *selection) classify(l *gpuhost.Library) capSet {
	stem, suffix, ok := splitLibrary(l.Name)
	if !ok || neverLibraries[stem] {
		return 0
	}
	if shared, ok := loaders[stem]; ok {
		return s.classifyLoader(l, shared, suffix)
	}
	if stem == "libnvidia-tls" && l.ABITag != nil && *l.ABITag != tlsABI {
		return 0
	}
	if stem == "libnvidia-cfg" && ofV1(s.files.Version) {
		return 0
	}
	rule, known := libraryRules[stem]
	switch {
	case known && (rule.origin == ofItself || suffix == s.files.Version):
		return rule.caps
	case !known && suffix == s.files.Version && looksNVIDIA(stem):
		return compute
	}
	return 0
}

// tlsABI marks the build of libnvidia-tls for thread-local storage of the
// kernel, the one that every C library of today needs (VF-6).
var tlsABI = [4]uint32{0, 2, 3, 99}

// classifyLoader decides about an OpenGL loader: one with the driver's version
// is the only one such a driver has, unless the driver works with GLVND; others
// are taken as v1 took them, for drivers of v1's time.
func (s *selection) classifyLoader(l *gpuhost.Library, shared bool, suffix string) capSet {
	if ofV1(s.files.Version) {
		if suffix == s.files.Version || !shared || needsNVIDIA(l) {
			return graphics
		}
		return 0
	}
	if suffix == s.files.Version && !s.has("libGLX_nvidia.so."+s.files.Version, l.Bits) {
		return graphics
	}
	return 0
}

// needsNVIDIA says whether a loader is linked against NVIDIA's OpenGL cores or GLVND.
func needsNVIDIA(l *gpuhost.Library) bool {
	for _, need := range l.Needed {
		for _, core := range []string{"libnvidia-glcore.so", "libnvidia-eglcore.so", "libGLdispatch.so"} {
			if strings.HasPrefix(need, core) {
				return true
			}
		}
	}
	return false
}

func (s *selection) has(name string, bits int) bool {
	for i := range s.files.Libraries {
		if l := &s.files.Libraries[i]; l.Name == name && l.Bits == bits {
			return true
		}
	}
	return false
}

// duplicate refuses a second file of one name with another content: nobody can
// tell which of them works with the kernel module. Of libnvidia-tls old drivers
// install two builds, of which the first that passed the ABI rule counts.
func (s *selection) duplicate(first, second *gpuhost.Library) error {
	if strings.HasPrefix(first.Name, "libnvidia-tls.so") {
		return nil
	}
	same, err := s.same(first.Path, second.Path)
	if err != nil {
		return fmt.Errorf("compare two files of one driver: %w", err)
	}
	if !same {
		return fmt.Errorf("driver files %q and %q have one name and different content; remove the one that does not belong to driver %q", first.Path, second.Path, s.files.Version)
	}
	return nil
}

// required checks that there is a CUDA driver to put into the volume.
func (s *selection) required() error {
	if s.caps&compute == 0 || s.has("libcuda.so."+s.files.Version, 64) {
		return nil
	}
	for _, l := range s.files.Libraries {
		if stem, suffix, _ := splitLibrary(l.Name); stem == "libcuda" && l.Bits == 64 && driverVersion.MatchString(suffix) {
			return fmt.Errorf("%w: libraries are %q (%q), kernel module is %q; reboot, or reload the nvidia modules", ErrMismatch, suffix, l.Path, s.files.Version)
		}
	}
	return fmt.Errorf("64-bit library %q of the loaded driver was not found; install the driver's user-space libraries, or set driver_root", "libcuda.so."+s.files.Version)
}

// pick takes the candidates of the wanted capabilities.
func (s *selection) pick() error {
	for _, c := range s.ours {
		if c.Bits == 32 && s.caps&compat32 == 0 {
			continue
		}
		if wanted := c.caps & s.caps; wanted != 0 {
			s.chosen[c.Library] = wanted
		}
	}
	for _, expected := range expectedLibraries {
		name := expected.stem + ".so." + s.files.Version
		if s.caps&libraryRules[expected.stem].caps != 0 && branch(s.files.Version) >= expected.since && !s.has(name, 64) {
			s.missing = append(s.missing, "lib64/"+name)
		}
	}
	return nil
}

// libDir is the directory of a library in the tree.
func libDir(l *gpuhost.Library) string {
	if l.Bits == 32 {
		return "lib"
	}
	return "lib64"
}
