// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"testing"

	"github.com/shoenig/test/must"
)

// TestCompatLibraries_help is the decision function of CMP-06.
func TestCompatLibraries_help(t *testing.T) {
	for _, tc := range []struct {
		name      string
		libraries compatLibraries
		host      facts
		listed    bool
		want      bool
	}{
		{"data centre, 12 on 535 to 13", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "535.261.03", cuda: "12.2", brand: "tesla"}, false, true},
		{"recent drivers call the boards nvidia", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "535.261.03", cuda: "12.2", brand: "nvidia"}, false, true},
		{"error 804 on GeForce", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "535.261.03", cuda: "12.2", brand: "geforce"}, true, false},
		{"error 804 on TITAN", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "535.261.03", cuda: "12.2", brand: "titan"}, true, false},
		{"brand not reported", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "535.261.03", cuda: "12.2"}, true, false},
		{"error 803 with older libraries", compatLibraries{cuda: "13.0", driver: "535.10"}, facts{driver: "535.261.03", cuda: "12.2", brand: "tesla"}, true, false},
		{"same major runs anyway", compatLibraries{cuda: "12.8", driver: "570.26"}, facts{driver: "535.261.03", cuda: "12.2", brand: "tesla"}, true, false},
		{"same major below the floor does not", compatLibraries{cuda: "10.2", driver: "440.33"}, facts{driver: "418.226.00", cuda: "10.1", brand: "tesla"}, true, true},
		{"driver is new enough", compatLibraries{cuda: "12.0", driver: "525.60.13"}, facts{driver: "535.261.03", cuda: "12.2", brand: "tesla"}, true, false},
		{"feature branch is no target", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "560.35.05", cuda: "12.6", brand: "tesla"}, false, false},
		{"unless the image lists it", compatLibraries{cuda: "13.0", driver: "580.65.06"}, facts{driver: "565.57.01", cuda: "12.7", brand: "tesla"}, true, true},
		{"image tells no CUDA version", compatLibraries{}, facts{driver: "535.261.03", cuda: "12.2", brand: "tesla"}, true, false},
		{"host tells no driver", compatLibraries{cuda: "13.0"}, facts{cuda: "12.2", brand: "tesla"}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, tc.want, tc.libraries.help(tc.host, tc.listed))
		})
	}
}

// TestDecide_forwardCompatibility: with compat libraries for certain, the check
// uses their CUDA version.
func TestDecide_forwardCompatibility(t *testing.T) {
	image := func(pkg string) Metadata {
		return Metadata{Env: map[string]string{EnvCUDAVersion: "13.0.1", "NV_CUDA_COMPAT_PACKAGE": pkg}}
	}
	d := Decide("img", image("cuda-compat-13-0"), tesla("535.261.03", "12.2"), byDefault)
	must.Eq(t, VerdictWarn, d.Verdict)
	must.Eq(t, []string{"forward-compat"}, d.Warnings)
	must.True(t, d.UseCompatLibraries)
	must.Eq(t, `image "img" needs CUDA 13.0; this node's driver 535.261.03 supports CUDA 12.2; it runs with the image's own libraries in /usr/local/cuda/compat`, d.Reason)

	must.Eq(t, VerdictRefuse, Decide("img", image(""), tesla("535.261.03", "12.2"), byDefault).Verdict)
	must.Eq(t, VerdictRefuse, Decide("img", image("cuda-compat-13-0"), geforce("535.261.03", "12.2"), byDefault).Verdict)
	must.Eq(t, VerdictRefuse, Decide("img", image("cuda-compat-13-0"), tesla("560.35.05", "12.6"), byDefault).Verdict)

	mixed := tesla("535.261.03", "12.2")
	mixed.GPUs = append(mixed.GPUs, GPU{ID: "GPU-1", Brand: "GeForce"})
	must.Eq(t, VerdictRefuse, Decide("img", image("cuda-compat-13-0"), mixed, byDefault).Verdict)

	ngc := Metadata{Env: map[string]string{EnvRequireCUDA: "cuda>=9.0", EnvCUDAVersion: "13.0.1.012", "CUDA_DRIVER_VERSION": "580.82.07"}}
	d = Decide("img", ngc, tesla("535.261.03", "12.2"), byDefault)
	must.Eq(t, VerdictAllow, d.Verdict)
	must.True(t, d.UseCompatLibraries)
	d = Decide("img", ngc, tesla("580.95.05", "13.0"), byDefault)
	must.False(t, d.UseCompatLibraries)
}

// TestDecide_forwardUnchecked: the libraries come first wherever they help, however
// the image was let in, and never in a refusal.
func TestDecide_forwardUnchecked(t *testing.T) {
	image := map[string]string{EnvCUDAVersion: "13.0.1", "NV_CUDA_COMPAT_PACKAGE": "cuda-compat-13-0"}
	disabled := map[string]string{EnvCUDAVersion: "13.0.1", EnvDisableRequire: "1"}
	unmet := map[string]string{EnvCUDAVersion: "13.0.1", EnvRequireCUDA: "driver>=900"}
	malformed := map[string]string{EnvCUDAVersion: "13.0.1", EnvRequireCUDA: "cuda>>1"}
	for _, tc := range []struct {
		name   string
		env    map[string]string
		policy Policy
		host   Host
		want   bool
	}{
		{"the operator ignores requirements", image, Policy{Requirements: Ignore}, tesla("535.261.03", "12.2"), true},
		{"the job ignores them", image, Policy{Requirements: Ignore, Overridden: true}, tesla("535.261.03", "12.2"), true},
		{"the variable", disabled, byDefault, tesla("535.261.03", "12.2"), true},
		{"only a warning", unmet, Policy{Requirements: Warn}, tesla("535.261.03", "12.2"), true},
		{"a malformed requirement is a warning", malformed, Policy{Requirements: Warn}, tesla("535.261.03", "12.2"), true},
		{"refused", unmet, byDefault, tesla("535.261.03", "12.2"), false},
		{"ignored, where they do not help", image, Policy{Requirements: Ignore}, geforce("535.261.03", "12.2"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, tc.want, Decide("img", Metadata{Env: tc.env}, tc.host, tc.policy).UseCompatLibraries)
		})
	}
}
