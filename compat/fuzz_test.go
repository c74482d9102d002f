// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzDecide feeds foreign text into everything that an image controls.
// Properties: no panic; the same answer every time; a reason of one printable,
// bounded line exactly when it is not a plain allowance; no warning names with a
// refusal; what cannot be a requirement changes nothing.
func FuzzDecide(f *testing.F) {
	for _, c := range readLines[caseRow](f, "testdata/compat-cases.jsonl") {
		f.Add(c.Env[EnvRequireCUDA], c.Env["NVIDIA_REQUIRE_BRAND"], c.Env[EnvCUDAVersion], c.Labels[LabelCUDAVersion], c.Env[EnvDisableRequire], c.Driver, c.CUDA, c.Arch, c.Brand)
	}
	f.Fuzz(func(t *testing.T, requireCUDA, requireBrand, cudaVersion, label, disable, driver, cuda, arch, brand string) {
		md := Metadata{
			Labels: map[string]string{LabelCUDAVersion: label},
			Env:    map[string]string{EnvRequireCUDA: requireCUDA, "NVIDIA_REQUIRE_BRAND": requireBrand, EnvCUDAVersion: cudaVersion, EnvDisableRequire: disable},
		}
		host := Host{Driver: driver, CUDA: cuda, GPUs: []GPU{{ID: "GPU-0", Arch: arch, Brand: brand}}}
		d := Decide("img", md, host, byDefault)
		checkAnswer(t, d)

		more := Metadata{Labels: md.Labels, Env: maps.Clone(md.Env)}
		more.Env["NVIDIA_REQUIRE_JETPACK"] = "csv-mounts=all"
		more.Env["NVIDIA_REQUIRE_BLANK"] = " \t\n"
		if again := Decide("img", more, host, byDefault); !reflect.DeepEqual(d, again) {
			t.Fatalf("blank and jetpack variables changed\n%+v to\n%+v", d, again)
		}
		warned := Decide("img", md, host, Policy{Requirements: Warn, AllowOverride: true})
		if warned.Verdict == VerdictRefuse {
			t.Fatalf("the setting warn refuses: %s", warned.Reason)
		}
	})
}

func checkAnswer(t *testing.T, d Decision) {
	t.Helper()
	if (d.Verdict == VerdictAllow) != (d.Reason == "") {
		t.Fatalf("verdict %q with reason %q", d.Verdict, d.Reason)
	}
	if d.Verdict == VerdictRefuse && len(d.Warnings) > 0 {
		t.Fatalf("refusal with warnings %q", d.Warnings)
	}
	if !utf8.ValidString(d.Reason) || strings.ContainsFunc(d.Reason, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("reason cannot be printed: %q", d.Reason)
	}
	if len(d.Reason) > 8192 {
		t.Fatalf("reason of %d bytes", len(d.Reason))
	}
}

// FuzzParseRequirement: what parses is a fixed point of writing and parsing, and
// the order of terms does not change whether a host meets them.
func FuzzParseRequirement(f *testing.F) {
	for _, c := range readLines[caseRow](f, "testdata/compat-cases.jsonl") {
		f.Add(c.Env[EnvRequireCUDA])
	}
	host := facts{driver: "535.54.03", cuda: "12.2", arch: "9.0", brand: "nvidia"}
	f.Fuzz(func(t *testing.T, value string) {
		r, err := parseRequirement("N", value)
		if err != nil {
			return
		}
		again, err := parseRequirement("N", shape(r))
		if err != nil || shape(again) != shape(r) {
			t.Fatalf("%q parsed to %q, that to %q (%v)", value, shape(r), shape(again), err)
		}
		reversed := requirement{name: r.name}
		for i := len(r.terms) - 1; i >= 0; i-- {
			reversed.terms = append(reversed.terms, r.terms[i])
		}
		if r.holds(host) != reversed.holds(host) {
			t.Fatalf("%q depends on the order of its terms", value)
		}
	})
}
