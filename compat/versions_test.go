// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestParseVersion(t *testing.T) {
	for _, good := range []string{"0", "9.0", "535.104.05", "12.8.0.038", strings.Repeat("9", 300) + ".1"} {
		_, ok := parseVersion(good)
		must.True(t, ok, must.Sprint(good))
	}
	for _, bad := range []string{"", ".", ".5", "5.", "1..2", "10_0", "v1", "1.0a", " 1", "-1", "1,0", "١"} {
		_, ok := parseVersion(bad)
		must.False(t, ok, must.Sprint(bad))
	}
}

func TestVersion_compare(t *testing.T) {
	for _, tc := range []struct {
		a, b version
		want int
	}{
		{"9.2", "10.1", -1},
		{"10.2", "10.10", -1},
		{"418.226.00", "418.226", 0},
		{"7", "7.0", 0},
		{"535.129.03", "535.54", 1},
		{"375.9", "375.10", -1},
		{"010.02", "10.2", 0},
		{"99999999999999999999999", "99999999999999999999998", 1},
		{"", "0.0", 0},
	} {
		must.Eq(t, tc.want, sign(tc.a.compare(tc.b)), must.Sprint(tc.a, tc.b))
		must.Eq(t, -tc.want, sign(tc.b.compare(tc.a)), must.Sprint(tc.b, tc.a))
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func TestLeadingVersion(t *testing.T) {
	for in, want := range map[string]version{
		"535.104.05": "535.104.05", "535.104.05-grid": "535.104.05", "550.": "550",
		"": "", "N/A": "", "0.0": "", "0": "", "v535": "", "1..2": "",
	} {
		must.Eq(t, want, leadingVersion(in), must.Sprint(in))
	}
}

// TestCudaOfDriver: the branches of CMP-01 and the exceptions of cuda-compat §4.
func TestCudaOfDriver(t *testing.T) {
	for driver, want := range map[version]version{
		"": "", "304.137": "", "340.108": "6.5", "343.36": "6.5", "346.96": "7.0", "352.39": "7.5", "358.16": "7.5",
		"361.93.02": "8.0", "364.19": "8.0", "367.57": "8.0", "375.66": "8.0", "381.22": "8.0", "384.59": "8.0", "384.81": "9.0",
		"387.26": "9.1", "390.12": "9.1", "390.157": "9.1", "396.44": "9.2", "410.104": "10.0", "415.27": "10.0", "418.226.00": "10.1",
		"430.64": "10.1", "440.118.02": "10.2", "450.248.02": "11.0", "470.256.02": "11.4", "535.261.03": "12.2", "550.163.01": "12.4",
		"565.57.01": "12.7", "570.133.20": "12.8", "580.95.05": "13.0", "590.48.01": "13.1", "610.43.02": "13.3", "615.10": "13.4", "620.1": "",
	} {
		must.Eq(t, want, cudaOfDriver(driver), must.Sprint(driver))
	}
}

func TestDriverReleases_ascend(t *testing.T) {
	for i := 1; i < len(driverReleases); i++ {
		a, b := driverReleases[i-1], driverReleases[i]
		must.Negative(t, a.driver.compare(b.driver), must.Sprint(a, b))
		must.LessEq(t, 0, a.cuda.compare(b.cuda), must.Sprint(a, b))
	}
}

func TestHostBrand(t *testing.T) {
	for in, want := range map[string]string{
		"Tesla": "tesla", "NVIDIA": "nvidia", "NVIDIA RTX": "nvidiartx", "quadro_rtx": "quadrortx", "GeForce RTX": "geforcertx", "TITAN": "titan",
		"NVIDIA Virtual Applications": "vapps", "NVIDIA Virtual PC": "vpc", "NVIDIA Virtual Compute Server": "vcs",
		"NVIDIA RTX Virtual Workstation": "vws", "NVIDIA Cloud Gaming": "cloudgaming", "Unknown": "unknown", "": "", "[N/A]": "",
	} {
		must.Eq(t, want, hostBrand(in), must.Sprint(in))
	}
}
