// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"strconv"
	"strings"
)

// architecture names the GPU family of a compute capability; nil when unknown.
func architecture(cc ComputeCapability) *string {
	name := ""
	switch {
	case cc.Major == 7 && cc.Minor == 5:
		name = "Turing"
	case cc.Major == 8 && cc.Minor == 9:
		name = "Ada"
	default:
		name = architectureByMajor[cc.Major]
	}
	if name == "" {
		return nil
	}
	return &name
}

var architectureByMajor = map[int]string{
	1: "Tesla", 2: "Fermi", 3: "Kepler", 5: "Maxwell", 6: "Pascal", 7: "Volta",
	8: "Ampere", 9: "Hopper", 10: "Blackwell", 11: "Blackwell", 12: "Blackwell",
}

// architectureByNVML names NVML's own architecture numbers, which say less than
// a compute capability and serve only where that is unknown.
var architectureByNVML = map[uint32]string{
	2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing",
	7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell",
}

// coresPerSM is the number of CUDA cores of one multiprocessor; zero when the
// capability is not in the table (nvidia-docker-v1 §3, carried on to Blackwell).
func coresPerSM(cc ComputeCapability) uint64 {
	switch cc.Major {
	case 1:
		return 8
	case 2:
		if cc.Minor == 0 {
			return 32
		}
		return 48
	case 3:
		return 192
	case 6:
		if cc.Minor == 0 {
			return 64
		}
		return 128
	case 7:
		return 64
	case 8:
		if cc.Minor == 0 {
			return 64
		}
		return 128
	case 5, 9, 10, 11, 12:
		return 128
	}
	return 0
}

// cudaVersionOf reads the integer form of a CUDA version, 1000*major+10*minor:
// 11040 is 11.4 (nvidia-docker-v1 D16).
func cudaVersionOf(n int) CUDAVersion {
	if n <= 0 {
		return CUDAVersion{}
	}
	return CUDAVersion{Major: n / 1000, Minor: n % 1000 / 10}
}

// driverCUDA lists the driver with which each CUDA version came: branch, minor
// release, and what a driver from there on supports (cuda-compat §4), newest
// first. Branch 361 already reports 8.0; 384 before 384.81 too.
var driverCUDA = []struct {
	branch, release int
	cuda            CUDAVersion
}{
	{615, 0, CUDAVersion{13, 4}}, {610, 0, CUDAVersion{13, 3}}, {595, 0, CUDAVersion{13, 2}},
	{590, 0, CUDAVersion{13, 1}}, {580, 0, CUDAVersion{13, 0}}, {575, 0, CUDAVersion{12, 9}},
	{570, 0, CUDAVersion{12, 8}}, {565, 0, CUDAVersion{12, 7}}, {560, 0, CUDAVersion{12, 6}},
	{555, 0, CUDAVersion{12, 5}}, {550, 0, CUDAVersion{12, 4}}, {545, 0, CUDAVersion{12, 3}},
	{535, 0, CUDAVersion{12, 2}}, {530, 0, CUDAVersion{12, 1}}, {525, 0, CUDAVersion{12, 0}},
	{520, 0, CUDAVersion{11, 8}}, {515, 0, CUDAVersion{11, 7}}, {510, 0, CUDAVersion{11, 6}},
	{495, 0, CUDAVersion{11, 5}}, {470, 0, CUDAVersion{11, 4}}, {465, 0, CUDAVersion{11, 3}},
	{460, 0, CUDAVersion{11, 2}}, {455, 0, CUDAVersion{11, 1}}, {450, 0, CUDAVersion{11, 0}},
	{440, 0, CUDAVersion{10, 2}}, {418, 0, CUDAVersion{10, 1}}, {410, 0, CUDAVersion{10, 0}},
	{396, 0, CUDAVersion{9, 2}}, {387, 0, CUDAVersion{9, 1}}, {384, 81, CUDAVersion{9, 0}},
	{361, 0, CUDAVersion{8, 0}}, {352, 0, CUDAVersion{7, 5}}, {346, 0, CUDAVersion{7, 0}},
	{340, 0, CUDAVersion{6, 5}},
}

// cudaByDriver tells the CUDA version that a driver supports by its branch; zero
// for drivers older than the table and for text that is no version. It is the
// last resort: what the driver itself reports always wins.
func cudaByDriver(version string) CUDAVersion {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	branch, err := strconv.Atoi(major)
	if err != nil {
		return CUDAVersion{}
	}
	release, err := strconv.Atoi(minor)
	if err != nil {
		release = 0
	}
	for _, row := range driverCUDA {
		if branch > row.branch || branch == row.branch && release >= row.release {
			return row.cuda
		}
	}
	return CUDAVersion{}
}
