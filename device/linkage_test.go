// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"debug/elf"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestLinkage: nothing of NVIDIA's is needed to load the program (cases DEV-04).
// This test binary has all that the plugin has.
func TestLinkage(t *testing.T) {
	file, err := elf.Open("/proc/self/exe")
	must.NoError(t, err)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	must.NoError(t, err)
	for _, library := range libraries {
		must.StrNotContains(t, library, "nvidia")
		must.StrNotContains(t, library, "cuda")
	}
	symbols, err := file.ImportedSymbols()
	must.NoError(t, err)
	for _, symbol := range symbols {
		must.False(t, strings.HasPrefix(symbol.Name, "nvml"), must.Sprint(symbol.Name))
	}
}
