// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// read reads the repository's files whose names match a pattern of git, together.
func read(t *testing.T, pattern string) string {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", pattern).Output()
	must.NoError(t, err)
	var all strings.Builder
	for name := range strings.FieldsSeq(string(list)) {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		must.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// TestPagesNameTests: every test that a page names as the one that holds a promise
// exists.
func TestPagesNameTests(t *testing.T) {
	sources := read(t, "*_test.go")
	name := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`)
	for _, page := range []struct {
		file   string
		column int // the cell with our tests, counted from the first bar
		rows   int // that the page has at least, or it was not read
	}{
		{"docs/peer-tests.md", 2, 60},
		{"docs/cases.md", 3, 80},
		{"docs/behaviours.md", 3, 250},
	} {
		text, err := os.ReadFile(page.file)
		must.NoError(t, err)
		rows := 0
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
			if len(cells) != 5 {
				continue
			}
			rows++
			for _, test := range name.FindAllString(cells[page.column], -1) {
				if !strings.Contains(sources, "\nfunc "+test+"(") {
					t.Errorf("%s names %s, which does not exist", page.file, test)
				}
			}
		}
		must.GreaterEq(t, page.rows, rows, must.Sprint(page.file))
	}
}

// TestNumbersAreExplained: a number that a comment names stands on a page.
func TestNumbersAreExplained(t *testing.T) {
	pages := read(t, "docs/cases.md") + read(t, "docs/behaviours.md")
	var unknown []string
	found := regexp.MustCompile(`(?:cases|task-driver|nvidia-docker-v1) ([A-Z]{2,3}-\d+)`).FindAllStringSubmatch(read(t, "*.go"), -1)
	must.Greater(t, 200, len(found), must.Sprint("the comments were not read"))
	for _, match := range found {
		if !regexp.MustCompile(`\| \[?` + match[1] + `[\] ]`).MatchString(pages) {
			unknown = append(unknown, match[0])
		}
	}
	slices.Sort(unknown)
	must.SliceEmpty(t, slices.Compact(unknown))
}
