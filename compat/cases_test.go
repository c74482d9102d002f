// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
)

// caseRow is one line of testdata/compat-cases.jsonl: a decision on one GPU.
type caseRow struct {
	ID     string            `json:"id"`
	Labels map[string]string `json:"labels"`
	Env    map[string]string `json:"env"`
	Driver string            `json:"driver"`
	CUDA   string            `json:"cuda"`
	Arch   string            `json:"arch"`
	Brand  string            `json:"brand"`
	Expect Verdict           `json:"expect"`
	Why    string            `json:"why"`
	Warn   []string          `json:"warn"`
}

func (c caseRow) host() Host {
	return Host{Driver: c.Driver, CUDA: c.CUDA, GPUs: []GPU{{ID: "GPU-0", Arch: c.Arch, Brand: c.Brand}}}
}

func (c caseRow) metadata() Metadata { return Metadata{Labels: c.Labels, Env: c.Env} }

// readLines decodes a file of one JSON object a line.
func readLines[T any](tb testing.TB, path string) []T {
	tb.Helper()
	data, err := os.ReadFile(path)
	must.NoError(tb, err)
	var rows []T
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row T
		must.NoError(tb, json.Unmarshal(lines.Bytes(), &row))
		rows = append(rows, row)
	}
	must.NoError(tb, lines.Err())
	return rows
}

var byDefault = Policy{Requirements: Enforce, AllowOverride: true}

func TestDecide_cases(t *testing.T) {
	rows := readLines[caseRow](t, "testdata/compat-cases.jsonl")
	must.Len(t, 119, rows)
	for _, c := range rows {
		t.Run(c.ID, func(t *testing.T) {
			d := Decide("img", c.metadata(), c.host(), byDefault)
			want := c.Expect
			if want == VerdictAllow && len(c.Warn) > 0 {
				want = VerdictWarn
			}
			must.Eq(t, want, d.Verdict, must.Sprintf("%s; answer: %s", c.Why, d.Reason))
			must.True(t, slices.Equal(c.Warn, d.Warnings), must.Sprintf("want warnings %q, got %q", c.Warn, d.Warnings))
			must.Eq(t, d.Verdict == VerdictAllow, d.Reason == "")
		})
	}
}
