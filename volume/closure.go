// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// close adds what the chosen libraries are linked against. A driver file that
// is needed and absent is an error where CUDA or NVML would not load; elsewhere
// (an incomplete OpenGL installation, a 32-bit remainder) it is only noted,
// because most tasks never load the part.
func (s *selection) close() error {
	open := make([]candidate, 0, len(s.ours))
	for _, c := range s.ours {
		if caps := s.chosen[c.Library]; caps != 0 {
			open = append(open, candidate{c.Library, caps})
		}
	}
	for len(open) > 0 {
		c := open[0]
		open = open[1:]
		for _, need := range c.Needed {
			found := s.find(need, c.Bits)
			if found == nil {
				if err := s.lacking(c, need); err != nil {
					return err
				}
				continue
			}
			if s.chosen[found] == 0 {
				s.chosen[found] = c.caps
				open = append(open, candidate{found, c.caps})
			}
		}
	}
	return nil
}

// find gives the candidate of a class that the loader would take for a needed name.
func (s *selection) find(need string, bits int) *gpuhost.Library {
	for _, c := range s.ours {
		if c.Bits == bits && (c.SONAME == need || c.Name == need) {
			return c.Library
		}
	}
	return nil
}

// lacking deals with a needed name that is no candidate's.
func (s *selection) lacking(c candidate, need string) error {
	stem, suffix, ok := splitLibrary(need)
	_, ours := libraryRules[stem]
	ours = ours || looksNVIDIA(stem) && suffix == s.files.Version
	if !ok || !ours {
		return nil // a library of the system, which the image has
	}
	if c.Bits == 64 && c.caps&(compute|utility) != 0 {
		return fmt.Errorf("driver file %q needs %q, which was not found; install the missing part of driver %q", c.Path, need, s.files.Version)
	}
	s.missing = append(s.missing, libDir(c.Library)+"/"+need)
	return nil
}
