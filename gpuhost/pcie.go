// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// laneMBps is the usable bandwidth of one PCIe lane in MB/s, by generation
// (nvidia-docker-v1 §3 and D16). Index 0 is unused.
var laneMBps = [...]uint64{0, 250, 500, 985, 1969, 3938, 7563}

// pcieBandwidth multiplies width by the lane speed of the generation, in MB/s.
// It is nil when either is unknown or the generation is not in the table.
func pcieBandwidth(generation, width *uint64) *uint64 {
	if generation == nil || width == nil || *generation == 0 || *generation >= uint64(len(laneMBps)) {
		return nil
	}
	mbps := laneMBps[*generation] * *width
	return &mbps
}

// memoryBandwidth is the memory bandwidth in MB/s of a double data rate bus:
// twice the clock times the bus width in bytes, each division cut as in
// nvidia-docker-v1 §3. It is nil when either is unknown.
func memoryBandwidth(clockKHz, busBits *uint64) *uint64 {
	if clockKHz == nil || busBits == nil {
		return nil
	}
	mbps := 2 * (*clockKHz / 1000) * (*busBits / 8)
	return &mbps
}
