// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"os"
	"testing"

	"github.com/shoenig/test/must"
)

// TestManual holds docs/image-requirements.md against the tables and names.
func TestManual(t *testing.T) {
	data, err := os.ReadFile("../docs/image-requirements.md")
	must.NoError(t, err)
	manual := string(data)
	seen := map[version]bool{}
	for _, r := range driverReleases {
		if r.between || seen[r.cuda] {
			continue
		}
		seen[r.cuda] = true
		must.StrContains(t, manual, fmt.Sprintf("| %s | %s |", r.cuda, r.driver))
	}
	for major, floor := range minorVersionFloors {
		must.StrContains(t, manual, fmt.Sprintf("%s.x from %s", major, floor))
	}
	for _, name := range []string{
		warnDisabled, warnFromTable, warnUnknownProperty, warnUnknownValue, warnBranchClause,
		warnMinorVersion, warnBadMetadata, warnForward, warnNotEnforced,
	} {
		must.StrContains(t, manual, "| `"+name+"` |")
	}
	must.StrContains(t, manual, fmt.Sprintf("up to %d bytes", MaxValueBytes))
	for _, m := range modes {
		must.StrContains(t, manual, fmt.Sprintf("`%s`", m))
	}
}
