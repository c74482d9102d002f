// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// layouts are the structs that callers and library share, by their last member:
// sizes and the last offset tell any difference in between.
var layouts = []struct{ name, last string }{
	{"nvmlPciInfo_t", "busId"},
	{"nvmlMemory_t", "used"},
	{"nvmlMemory_v2_t", "used"},
	{"nvmlBAR1Memory_t", "bar1Used"},
	{"nvmlUtilization_t", "memory"},
	{"nvmlTemperature_t", "temperature"},
	{"nvmlProcessInfo_v1_t", "usedGpuMemory"},
	{"nvmlProcessInfo_t", "computeInstanceId"},
	{"nvmlEccErrorCounts_t", "registerFile"},
	{"nvmlFieldValue_t", "value"},
	{"nvmlEventData_t", "computeInstanceId"},
	{"nvmlDeviceAttributes_t", "memorySizeMB"},
	{"nvmlGpuFabricInfo_t", "state"},
	{"nvmlGpuFabricInfo_v2_t", "healthMask"},
	{"nvmlGpuFabricInfo_v3_t", "healthSummary"},
}

// TestLayouts compares the library's own header with the one that go-nvml carries.
func TestLayouts(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	must.NoError(t, err)
	theirs := filepath.Join(strings.TrimSpace(string(dir)), "pkg/nvml/nvml.h")
	must.Eq(t, printLayouts(t, theirs, ""), printLayouts(t, must2(filepath.Abs("nvml/abi.h"))(t), "used"))
}

func must2(path string, err error) func(*testing.T) string {
	return func(t *testing.T) string {
		must.NoError(t, err)
		return path
	}
}

// printLayouts compiles and runs a program that prints size and last offset of
// each struct. The BAR1 struct's members have shorter names in our header.
func printLayouts(t *testing.T, header, bar1Last string) string {
	var code strings.Builder
	fmt.Fprintf(&code, "#include %q\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n", header)
	for _, l := range layouts {
		last := l.last
		if last == "bar1Used" && bar1Last != "" {
			last = bar1Last
		}
		fmt.Fprintf(&code, "printf(\"%s %%zu %%zu\\n\", sizeof(%s), offsetof(%s, %s));\n", l.name, l.name, l.name, last)
	}
	code.WriteString("return 0; }\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layouts.c"), filepath.Join(dir, "layouts")
	must.NoError(t, os.WriteFile(source, []byte(code.String()), 0o600))
	output, err := exec.CommandContext(t.Context(), "cc", "-o", program, source).CombinedOutput()
	must.NoError(t, err, must.Sprint(string(output)))
	printed, err := exec.CommandContext(t.Context(), program).Output()
	must.NoError(t, err)
	return string(printed)
}
