// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

func profileFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.json")
	must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestProfileRefuses(t *testing.T) {
	const head = `{"name":"own","driver_version":"535.1","cuda_driver_version":12020,`
	for _, tc := range []struct{ name, text, want string }{
		{"no JSON", `gpus: 4`, `cannot be read`},
		{"unknown key", head + `"gpus":4}`, `unknown field "gpus"`},
		{"version", `{"driver_version":"new"}`, `driver_version "new" must look like "535.104.05"`},
		{"unknown fact", head + `"devices":[{"nvml":{"temprature_c":3}}]}`, `device 0: no key "temprature_c"; the keys are name, uuid`},
		{"kind of value", head + `"devices":[{"nvml":{"temperature_c":"warm"}}]}`, `temperature_c "warm" is not a whole number`},
		{"list as value", head + `"devices":[{"nvml":{"name":[1]}}]}`, `name has a value of a kind that it cannot have`},
		{"same UUID", head + `"devices":[{"nvml":{"uuid":"GPU-1"}},{"nvml":{"uuid":"GPU-1"}}]}`, `devices 0 and 1 have the same uuid GPU-1`},
		{"topology", head + `"devices":[],"topology":[{"a":0,"b":1}]}`, `topology of 0 and 1: a must be smaller than b, and both must be devices`},
		{"symbol", head + `"missing_symbols":["nvmlFly"]}`, `no function "nvmlFly"`},
		{"MIG profile", head + `"devices":[{"nvml":{"mig_mode":true},"mig":["big"]}]}`, `MIG profile "big" does not look like "1g.5gb"`},
		{"MIG mode", head + `"devices":[{"nvml":{},"mig":["1g.5gb"]}]}`, `MIG devices need "mig_mode": true`},
		{"processes", head + `"devices":[{"nvml":{"processes":[{"pid":0,"name":"x"}]}}]}`, `process id 0 is not positive`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := simhost.LoadProfile(profileFile(t, tc.text), "")
			must.ErrorContains(t, err, tc.want)
		})
	}
	_, err := simhost.LoadProfile(filepath.Join(t.TempDir(), "none.json"), "")
	must.ErrorIs(t, err, os.ErrNotExist)
}

// TestScenarios applies every scenario of the golden hosts (nvidia-docker-v1 §14).
func TestScenarios(t *testing.T) {
	p, err := simhost.LoadProfile("testdata/fixtures/ecc2-375.26.json", "")
	must.NoError(t, err)
	must.SliceNotEmpty(t, p.Scenarios)
	for _, s := range p.Scenarios {
		changed, err := simhost.LoadProfile("testdata/fixtures/ecc2-375.26.json", s.Name)
		must.NoError(t, err)
		must.NotEq(t, p, changed, must.Sprint(s.Name))
	}
	_, err = simhost.LoadProfile("testdata/fixtures/ecc2-375.26.json", "flood")
	must.ErrorContains(t, err, `no scenario "flood"; it has device-lost, device0-lost,`)
}

// TestScenarioHost: a scenario's failing query fails on its device only.
func TestScenarioHost(t *testing.T) {
	h := upWith(t, simhost.Options{Profile: "testdata/fixtures/ecc2-375.26.json", Scenario: "device-lost"})
	lines := strings.Split(strings.TrimSpace(smi(t, h, "--query-gpu=index,power.draw", "--format=csv,noheader")), "\n")
	must.Eq(t, []string{"0, 187.99 W", "1, [GPU is lost]"}, lines)
	h = upWith(t, simhost.Options{Profile: "testdata/fixtures/ecc2-375.26.json", Scenario: "uvm-tools-stat-fails"})
	_, err := os.Stat(filepath.Join(h.Root(), "dev/nvidia-uvm-tools"))
	must.Error(t, err)
	must.False(t, os.IsNotExist(err))
}

// TestOwnProfile: a profile needs little.
func TestOwnProfile(t *testing.T) {
	h := up(t, profileFile(t, `{"driver_version":"535.104.05","cuda_driver_version":12020,"device_defaults":{"nvml":{"name":"My GPU"}},
		"devices":[{"nvml":{"uuid":"GPU-a","minor":4}},{"nvml":{"uuid":"GPU-b","minor":2}}]}`))
	must.Eq(t, "GPU 0: My GPU (UUID: GPU-a)\nGPU 1: My GPU (UUID: GPU-b)\n", smi(t, h, "-L"))
	must.FileExists(t, filepath.Join(h.Root(), "dev/nvidia4"))
}
