// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestPolicy_ForTask(t *testing.T) {
	for _, tc := range []struct {
		name     string
		operator Policy
		task     string
		want     Policy
		wantErr  string
	}{
		{"defaults", Policy{}, "", Policy{Requirements: Enforce}, ""},
		{"task says nothing", Policy{Requirements: Warn, AllowOverride: true}, "", Policy{Requirements: Warn, AllowOverride: true}, ""},
		{"same", Policy{Requirements: Warn}, "warn", Policy{Requirements: Warn}, ""},
		{"stricter needs no permission", Policy{Requirements: Ignore}, "enforce", Policy{Requirements: Enforce}, ""},
		{"weaker, permitted", Policy{AllowOverride: true}, "ignore", Policy{Requirements: Ignore, AllowOverride: true, Overridden: true}, ""},
		{"weaker, not permitted", Policy{}, "warn", Policy{}, `task config: gpu.requirements "warn" is weaker than "enforce", which this node's operator set without allow_override; remove it from the job`},
		{"not a setting", Policy{AllowOverride: true}, "off", Policy{}, `task config: gpu.requirements "off" is not a setting; use "enforce", "warn" or "ignore"`},
		{"operator's is not a setting", Policy{Requirements: "off"}, "", Policy{}, `plugin config: gpu.requirements "off" is not a setting; use "enforce", "warn" or "ignore"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.operator.ForTask(tc.task)
			if tc.wantErr != "" {
				must.EqError(t, err, tc.wantErr)
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.want, got)
		})
	}
}

func TestDecide_policy(t *testing.T) {
	tooNew := map[string]string{EnvRequireCUDA: "cuda>=99.0"}
	host := tesla("535.54.03", "12.2")
	decide := func(p Policy, extra ...string) Decision {
		env := map[string]string{EnvRequireCUDA: tooNew[EnvRequireCUDA]}
		for _, e := range extra {
			k, v, _ := strings.Cut(e, "=")
			env[k] = v
		}
		return Decide("img", Metadata{Env: env}, host, p)
	}

	t.Run("ignore by the operator", func(t *testing.T) {
		must.Eq(t, Decision{Verdict: VerdictAllow, UseCompatLibraries: true}, decide(Policy{Requirements: Ignore}))
	})
	t.Run("ignore by the job leaves a warning", func(t *testing.T) {
		d := decide(Policy{Requirements: Ignore, AllowOverride: true, Overridden: true})
		must.Eq(t, VerdictWarn, d.Verdict)
		must.Eq(t, []string{"disabled"}, d.Warnings)
		must.Eq(t, `image "img" is not checked against this node's driver, because the job sets requirements = "ignore"`, d.Reason)
	})
	t.Run("warn", func(t *testing.T) {
		d := decide(Policy{Requirements: Warn, AllowOverride: true})
		must.Eq(t, VerdictWarn, d.Verdict)
		must.Eq(t, []string{"not-enforced"}, d.Warnings)
		must.StrHasPrefix(t, `image "img" needs CUDA 99.0; this node's driver 535.54.03 supports CUDA 12.2`, d.Reason)
		must.StrHasSuffix(t, `started all the same, because requirements = "warn"`, d.Reason)
	})
	t.Run("disabled in the environment", func(t *testing.T) {
		for _, word := range []string{"1", "t", "T", "true", "TRUE", "True"} {
			d := decide(Policy{AllowOverride: true}, "NVIDIA_DISABLE_REQUIRE="+word)
			must.Eq(t, VerdictWarn, d.Verdict)
			must.Eq(t, []string{"disabled"}, d.Warnings)
		}
	})
	t.Run("disabling is not permitted", func(t *testing.T) {
		d := decide(Policy{}, "NVIDIA_DISABLE_REQUIRE=1")
		must.Eq(t, VerdictRefuse, d.Verdict)
		must.StrContains(t, d.Reason, "this node's operator does not let jobs override this (allow_override = false)")
		must.StrNotContains(t, d.Reason, "set NVIDIA_DISABLE_REQUIRE=1")
		must.Eq(t, []string{"NVIDIA_DISABLE_REQUIRE has no effect, because this node's operator set allow_override = false"}, d.Hints)
	})
	t.Run("misspelt", func(t *testing.T) {
		d := decide(Policy{AllowOverride: true}, "NVIDIA_DISABLE_REQUIRES=true")
		must.Eq(t, VerdictRefuse, d.Verdict)
		must.Eq(t, []string{"NVIDIA_DISABLE_REQUIRES has no effect; the variable is called NVIDIA_DISABLE_REQUIRE"}, d.Hints)
	})
	t.Run("not a word for true", func(t *testing.T) {
		d := decide(Policy{AllowOverride: true}, "NVIDIA_DISABLE_REQUIRE=yes")
		must.Eq(t, VerdictRefuse, d.Verdict)
		must.Eq(t, []string{"NVIDIA_DISABLE_REQUIRE=yes has no effect; the value to switch the check off is 1 or true"}, d.Hints)
	})
	t.Run("an unknown setting enforces", func(t *testing.T) {
		must.Eq(t, VerdictRefuse, decide(Policy{Requirements: "nonsense"}).Verdict)
	})
}

func TestDeclaresGPU(t *testing.T) {
	for _, tc := range []struct {
		name, want  string
		labels, env map[string]string
	}{
		{name: "plain"},
		{name: "void", env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}},
		{name: "jetpack is no requirement", env: map[string]string{"NVIDIA_REQUIRE_JETPACK": "csv-mounts=all"}},
		{name: "CUDA_VERSION alone tells what is inside, not that it uses a GPU", env: map[string]string{"CUDA_VERSION": "12.0"}},
		{name: "v1", want: LabelVolumesNeeded, labels: map[string]string{LabelVolumesNeeded: "nvidia_driver", LabelCUDAVersion: "8.0"}},
		{name: "empty volumes label", labels: map[string]string{LabelVolumesNeeded: ""}},
		{name: "version label alone", want: LabelCUDAVersion, labels: map[string]string{LabelCUDAVersion: "8.0"}},
		{name: "all", want: "NVIDIA_VISIBLE_DEVICES", env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}},
		{name: "requirement", want: "NVIDIA_REQUIRE_ARCH", env: map[string]string{"NVIDIA_REQUIRE_ARCH": "arch>=7"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, tc.want, DeclaresGPU(Metadata{Labels: tc.labels, Env: tc.env}))
		})
	}
}
