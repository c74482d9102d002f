// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
)

func number(n uint64) *uint64 { return &n }

func TestPCIeBandwidth(t *testing.T) {
	for _, tc := range []struct {
		generation, width *uint64
		want              *uint64
	}{
		{number(1), number(16), number(4000)},
		{number(2), number(8), number(4000)},
		{number(3), number(16), number(15760)},
		{number(4), number(16), number(31504)},
		{number(5), number(16), number(63008)},
		{number(6), number(8), number(60504)},
		{number(3), number(0), number(0)},
		{number(0), number(16), nil},
		{number(7), number(16), nil},
		{nil, number(16), nil},
		{number(3), nil, nil},
	} {
		must.Eq(t, tc.want, pcieBandwidth(tc.generation, tc.width))
	}
}

func TestMemoryBandwidth(t *testing.T) {
	// The K80 and TITAN X of the golden fixtures, and an H100's HBM3.
	must.Eq(t, number(240480), memoryBandwidth(number(2505000), number(384)))
	must.Eq(t, number(336480), memoryBandwidth(number(3505000), number(384)))
	must.Eq(t, number(3352320), memoryBandwidth(number(2619000), number(5120)))
	must.Nil(t, memoryBandwidth(nil, number(384)))
	must.Nil(t, memoryBandwidth(number(1), nil))
}

func TestArchitectureAndCores(t *testing.T) {
	for _, tc := range []struct {
		cc    ComputeCapability
		name  string
		cores uint64
	}{
		{ComputeCapability{1, 3}, "Tesla", 8},
		{ComputeCapability{2, 0}, "Fermi", 32},
		{ComputeCapability{2, 1}, "Fermi", 48},
		{ComputeCapability{3, 7}, "Kepler", 192},
		{ComputeCapability{5, 2}, "Maxwell", 128},
		{ComputeCapability{6, 0}, "Pascal", 64},
		{ComputeCapability{6, 1}, "Pascal", 128},
		{ComputeCapability{7, 0}, "Volta", 64},
		{ComputeCapability{7, 5}, "Turing", 64},
		{ComputeCapability{8, 0}, "Ampere", 64},
		{ComputeCapability{8, 6}, "Ampere", 128},
		{ComputeCapability{8, 9}, "Ada", 128},
		{ComputeCapability{9, 0}, "Hopper", 128},
		{ComputeCapability{10, 0}, "Blackwell", 128},
		{ComputeCapability{12, 1}, "Blackwell", 128},
	} {
		t.Run(tc.cc.String(), func(t *testing.T) {
			must.Eq(t, &tc.name, architecture(tc.cc))
			must.Eq(t, tc.cores, coresPerSM(tc.cc))
		})
	}
	must.Nil(t, architecture(ComputeCapability{4, 0}))
	must.Zero(t, coresPerSM(ComputeCapability{99, 0}))
}

func TestCUDAVersion(t *testing.T) {
	for n, want := range map[int]string{7050: "7.5", 11040: "11.4", 12080: "12.8", 12110: "12.11", 13000: "13.0", 0: "", -1: ""} {
		must.Eq(t, want, cudaVersionOf(n).String())
	}
}

func TestCUDAByDriver(t *testing.T) {
	for driver, want := range map[string]string{
		"340.108": "6.5", "346.46": "7.0", "352.39": "7.5", "361.48": "8.0", "367.48": "8.0", "375.66": "8.0",
		"384.59": "8.0", "384.81": "9.0", "387.26": "9.1", "390.157": "9.1", "396.26": "9.2", "410.48": "10.0",
		"415.27": "10.0", "418.226.00": "10.1", "440.33": "10.2", "450.248.02": "11.0", "470.256.02": "11.4",
		"535.261.03": "12.2", "550.163.01": "12.4", "565.57.01": "12.7", "570.26": "12.8", "580.95.05": "13.0",
		"450.36.06": "11.0", "450.36": "10.2", "352.21": "7.0", "615": "13.4", "700.1": "", "304.131": "", "": "", "text": "",
	} {
		t.Run(driver, func(t *testing.T) { must.Eq(t, want, cudaByDriver(driver).String()) })
	}
}

// TestCUDAByDriver_compat: what decides whether an image may run takes the same CUDA
// version from its table as what we tell (cases CMP-01).
func TestCUDAByDriver_compat(t *testing.T) {
	drivers := []string{"304.131", "340.28", "361.48", "375.66", "384.59", "390.157", "415.27", "430.64", "565.57.01", "616.1", "700.1"}
	for _, row := range driverCUDA {
		before := slices.Clone(row.driver)
		before[len(before)-1]--
		for _, numbers := range [][]int{row.driver, before, append(slices.Clone(row.driver), 1)} {
			drivers = append(drivers, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), "."), "[]"))
		}
	}
	image := compat.Metadata{Env: map[string]string{compat.EnvCUDAVersion: "99.0"}}
	for _, driver := range drivers {
		decision := compat.Decide("image", image, compat.Host{Driver: driver, GPUs: []compat.GPU{{}}}, compat.Policy{})
		want := "cannot determine the CUDA version of driver " + driver
		if cuda := cudaByDriver(driver).String(); cuda != "" {
			want = "this node's driver " + driver + " supports CUDA " + cuda + ";"
		}
		must.StrContains(t, decision.Reason, want)
	}
}

func TestShortBusID(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:0a:00.0": "0000:0A:00.0", "0000:0A:00.0": "0000:0A:00.0", "0000000f:c1:00.0": "000F:C1:00.0",
		"00010000:01:00.0": "10000:01:00.0", "junk": "JUNK",
	} {
		must.Eq(t, want, shortBusID(in))
	}
}

func TestParseNVRM(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"closed": {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12.2.0\n", "535.104.05"},
		"open":   {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.26  Release Build  (root@host)\n", "570.26"},
		"old":    {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  352.39  Fri Aug 14 18:09:10 PDT 2015\n", "352.39"},
		"empty":  {"", ""},
		"other":  {"GCC version: 12.2.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, tc.want, parseNVRM(tc.text)) })
	}
}

func TestMIGProfile(t *testing.T) {
	for want, tc := range map[string]struct {
		slices, compute uint32
		mib             uint64
	}{
		"1g.5gb": {1, 1, 4864}, "3g.20gb": {3, 3, 19968}, "7g.40gb": {7, 7, 40192}, "1c.3g.20gb": {3, 1, 19968}, "1g.10gb": {1, 1, 9856},
	} {
		must.Eq(t, want, migProfile(tc.slices, tc.compute, tc.mib))
	}
}

// TestErrorText: the text needs no library (cases DEV-02) and keeps code and call.
func TestErrorText(t *testing.T) {
	err := fmt.Errorf("outer: %w", &Error{Call: "nvmlInit_v2", Code: CodeLibraryNotFound})
	must.Eq(t, "outer: nvmlInit_v2: NVML library not found (code 12)", err.Error())
	must.Eq(t, CodeLibraryNotFound, codeOf(err))
	must.Eq(t, CodeUnknown, codeOf(errors.New("plain")))
	must.Eq(t, "error (code 4711)", Code(4711).String())
	must.True(t, notTold(&Error{Code: CodeNotSupported}))
	must.False(t, notTold(&Error{Code: CodeGPUIsLost}))
	must.False(t, notTold(nil))
}

func TestXIDRules(t *testing.T) {
	rules := func(ignore, fatal []string) XIDRules {
		r, err := ParseXIDRules(ignore, fatal)
		must.NoError(t, err)
		return r
	}
	builtIn := XIDRules{}
	for _, xid := range []uint64{13, 31, 43, 45, 68, 69, 94, 9999} {
		must.False(t, builtIn.isFatal(xid), must.Sprintf("Xid %d", xid))
	}
	for _, xid := range []uint64{48, 74, 79, 95, 109, 119, 120} {
		must.True(t, builtIn.isFatal(xid), must.Sprintf("Xid %d", xid))
	}
	must.True(t, rules(nil, []string{"45"}).isFatal(45))
	must.False(t, rules([]string{"79"}, nil).isFatal(79))
	must.True(t, rules([]string{"45"}, []string{"45"}).isFatal(45))
	only48 := rules([]string{"all"}, []string{"48"})
	must.True(t, only48.isFatal(48))
	must.False(t, only48.isFatal(79))
	must.False(t, rules([]string{"13"}, []string{"all"}).isFatal(13))
	_, err := ParseXIDRules([]string{"seventy"}, nil)
	must.EqError(t, err, `xid_ignore: "seventy" is neither an XID number nor "all"`)
	_, err = ParseXIDRules(nil, []string{"-1"})
	must.ErrorContains(t, err, `xid_fatal: "-1"`)
}

func TestParseInjections(t *testing.T) {
	got, err := ParseInjections([]string{"GPU-1:79", "GPU-2:13"})
	must.NoError(t, err)
	must.Eq(t, []Injection{{"GPU-1", 79}, {"GPU-2", 13}}, got)
	for _, word := range []string{"", "79", "GPU-1", "GPU-1:", "GPU-1:x", "MIG-1:79", "GPU-1:-1", "GPU-1:79:1"} {
		_, err := ParseInjections([]string{word})
		must.ErrorContains(t, err, `is not "<GPU UUID>:<XID>"`, must.Sprint(word))
	}
}

func TestParseInformation(t *testing.T) {
	gpu, ok := parseInformation("Model: \t\t Tesla K80\nIRQ:   \t\t 82\nGPU UUID: \t GPU-1ab7d8d0-6f1e\nBus Location: \t 0000:06:00.0\nDevice Minor: \t 3\n")
	must.True(t, ok)
	must.Eq(t, kernelGPU{identity{uuid: "GPU-1ab7d8d0-6f1e", minor: 3}, "Tesla K80"}, gpu)
	for _, text := range []string{"", "GPU UUID: GPU-????????-????\nDevice Minor: 0\n", "GPU UUID: GPU-1\n", "Device Minor: 1\n"} {
		_, ok := parseInformation(text)
		must.False(t, ok)
	}
}
