// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// shape writes a parsed requirement with single separators.
func shape(r requirement) string {
	terms := make([]string, len(r.terms))
	for i, t := range r.terms {
		terms[i] = t.text()
	}
	return strings.Join(terms, " ")
}

func TestParseRequirement(t *testing.T) {
	for _, tc := range []struct {
		in, want string
		dropped  bool
	}{
		{in: ""},
		{in: " \t\r\n,, ,"},
		{in: "cuda>=8.0 ", want: "cuda>=8.0"},
		{in: "cuda>=10.0 brand=tesla,driver>=384,driver<385", want: "cuda>=10.0 brand=tesla,driver>=384,driver<385"},
		{in: "cuda>=1\tarch=2\ndriver!=3", want: "cuda>=1 arch=2 driver!=3"},
		{in: "a=1,cuda>=1", want: "cuda>=1", dropped: true},
		{in: "a=1 cuda>=1", want: "cuda>=1", dropped: true},
		{in: ",cuda>=1,,arch=2,", want: "cuda>=1,arch=2"},
		{in: "BRAND=Quadro_RTX,CUDA<9", want: "BRAND=Quadro_RTX,CUDA<9"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			r, err := parseRequirement("N", tc.in)
			must.True(t, err == nil)
			must.Eq(t, tc.want, shape(r))
			must.Eq(t, tc.dropped, r.dropped)
		})
	}
}

func TestParseRequirement_malformed(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"Tesla", `invalid requirement N: Tesla (at character 1: no operator; write property, operator and value, as in "cuda>=12.0")`},
		{"cuda>=1 >=400", `invalid requirement N: >=400 (at character 9: no property before the operator; use cuda, driver, arch or brand)`},
		{"cuda==1", `invalid requirement N: cuda==1 (at character 1: "==" is not an operator; use one of = != < <= > >=)`},
		{"foo==1", `invalid requirement N: foo==1 (at character 1: "==" is not an operator; use one of = != < <= > >=)`},
		{"cuda>=", `invalid requirement N: cuda>= (at character 1: no value after the operator)`},
		{"cuda>=10_0", `invalid requirement N: cuda>=10_0 (at character 1: 10_0 is not a version; write numbers with dots between them)`},
		{"cuda>=1..0", `invalid requirement N: cuda>=1..0 (at character 1: 1..0 is not a version; write numbers with dots between them)`},
		{"cuda>=1<2", `invalid requirement N: cuda>=1<2 (at character 1: 1<2 is not a version; write numbers with dots between them)`},
		{"arch=8.6 brand>=tesla", `invalid requirement N: brand>=tesla (at character 10: a brand can only be equal (=) or unequal (!=))`},
		{"brand=a=b", `invalid requirement N: brand=a=b (at character 1: the value contains an operator)`},
		{"é=1 cuda", `invalid requirement N: cuda (at character 5: no operator; write property, operator and value, as in "cuda>=12.0")`},
		{"cuda>=1\x00", `invalid requirement N: "cuda>=1\x00" (at character 1: it contains a character that cannot be printed)`},
		{"cuda>=1\xff", `invalid requirement N: "cuda>=1\xff" (at character 1: it contains a character that cannot be printed)`},
		{strings.Repeat("x", MaxValueBytes+1), `invalid requirement N: its value has 65537 bytes, at most 65536 are evaluated`},
	} {
		t.Run(tc.want, func(t *testing.T) {
			_, err := parseRequirement("N", tc.in)
			must.True(t, err != nil)
			must.Eq(t, tc.want, err.Error())
		})
	}
}

// TestCollect_bounds: many variables are as bad as a long one.
func TestCollect_bounds(t *testing.T) {
	env := map[string]string{}
	for _, c := range "ABCDEF" {
		env["NVIDIA_REQUIRE_"+string(c)] = strings.Repeat("arch=1 ", MaxValueBytes/7)
	}
	_, err := collect(env)
	must.True(t, err != nil)
	must.Eq(t, "invalid requirement NVIDIA_REQUIRE_*: the image has 6 variables of together more than 262144 bytes", err.Error())
}

// TestDecide_bounds: the largest input that is evaluated is decided in an
// instant, with a reason of readable length.
func TestDecide_bounds(t *testing.T) {
	env := map[string]string{}
	for _, c := range "ABC" {
		env["NVIDIA_REQUIRE_"+string(c)] = strings.Repeat("arch=1 ", MaxValueBytes/7)
	}
	d := Decide("img", Metadata{Env: env}, tesla("535.54.03", "12.2"), byDefault)
	must.Eq(t, VerdictRefuse, d.Verdict)
	must.Len(t, maxAlternatives, d.Alternatives)
	must.Less(t, 4096, len(d.Reason))
}

// BenchmarkDecide_largest is the worst case within the bounds.
func BenchmarkDecide_largest(b *testing.B) {
	env := map[string]string{}
	for _, c := range "ABC" {
		env["NVIDIA_REQUIRE_"+string(c)] = strings.Repeat("arch=1 ", MaxValueBytes/7)
	}
	for b.Loop() {
		Decide("img", Metadata{Env: env}, tesla("535.54.03", "12.2"), byDefault)
	}
}

// BenchmarkDecide is a real image on a node that refuses it.
func BenchmarkDecide(b *testing.B) {
	for _, c := range readLines[caseRow](b, "testdata/compat-cases.jsonl") {
		if c.ID == "req-13.0-h100-560" {
			for b.Loop() {
				Decide("img", c.metadata(), c.host(), byDefault)
			}
		}
	}
}
