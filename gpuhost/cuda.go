// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

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
