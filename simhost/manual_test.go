// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestManual: every profile and every key that can be set stands in the manual.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../docs/simulated-host.md")
	must.NoError(t, err)
	manual := string(text)
	for _, key := range simhost.SetKeys() {
		must.StrContains(t, manual, "| `"+strings.TrimPrefix(key, "cuda.")+"` |")
	}
	profiles, err := simhost.Profiles()
	must.NoError(t, err)
	must.Len(t, 12, profiles)
	for _, p := range profiles {
		must.StrContains(t, manual, "| `"+p.Name+"` |")
	}
}
