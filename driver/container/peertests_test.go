// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestPeerTests: every test that docs/peer-tests.md names as ours exists.
func TestPeerTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/peer-tests.md")
	must.NoError(t, err)
	var sources strings.Builder
	for _, dir := range []string{".", "..", "../config", "../image", "../logship", "../../orphan", "../../e2e"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		must.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			must.NoError(t, err)
			sources.Write(text)
		}
	}
	name, rows := regexp.MustCompile(`Test[A-Z]\w+`), 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		rows++
		for _, test := range name.FindAllString(cells[2], -1) {
			must.StrContains(t, sources.String(), "func "+test+"(t *testing.T)")
		}
	}
	must.Greater(t, 60, rows, must.Sprint("the tables were not read"))
}
