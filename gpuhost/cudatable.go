// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"slices"
	"strconv"
	"strings"
)

// driverCUDA lists from which driver on which CUDA version is supported (cuda-compat
// §4), newest first. Package compat has the same facts with more to each; a test
// keeps the two equal.
var driverCUDA = []struct {
	driver []int
	cuda   CUDAVersion
}{
	{[]int{615}, CUDAVersion{13, 4}},
	{[]int{610, 43, 2}, CUDAVersion{13, 3}},
	{[]int{595, 45, 4}, CUDAVersion{13, 2}},
	{[]int{590, 44, 1}, CUDAVersion{13, 1}},
	{[]int{580, 65, 6}, CUDAVersion{13, 0}},
	{[]int{575, 51, 3}, CUDAVersion{12, 9}},
	{[]int{570, 26}, CUDAVersion{12, 8}},
	{[]int{565}, CUDAVersion{12, 7}},
	{[]int{560, 28, 3}, CUDAVersion{12, 6}},
	{[]int{555, 42, 2}, CUDAVersion{12, 5}},
	{[]int{550, 54, 14}, CUDAVersion{12, 4}},
	{[]int{545, 23, 6}, CUDAVersion{12, 3}},
	{[]int{535, 54, 3}, CUDAVersion{12, 2}},
	{[]int{530, 30, 2}, CUDAVersion{12, 1}},
	{[]int{525, 60, 13}, CUDAVersion{12, 0}},
	{[]int{520, 61, 5}, CUDAVersion{11, 8}},
	{[]int{515, 43, 4}, CUDAVersion{11, 7}},
	{[]int{510, 39, 1}, CUDAVersion{11, 6}},
	{[]int{495, 29, 5}, CUDAVersion{11, 5}},
	{[]int{470, 42, 1}, CUDAVersion{11, 4}},
	{[]int{465, 19, 1}, CUDAVersion{11, 3}},
	{[]int{460, 27, 3}, CUDAVersion{11, 2}},
	{[]int{455, 23}, CUDAVersion{11, 1}},
	{[]int{450, 36, 6}, CUDAVersion{11, 0}},
	{[]int{440, 33}, CUDAVersion{10, 2}},
	{[]int{418, 39}, CUDAVersion{10, 1}},
	{[]int{410, 48}, CUDAVersion{10, 0}},
	{[]int{396, 26}, CUDAVersion{9, 2}},
	{[]int{387}, CUDAVersion{9, 1}},
	{[]int{384, 81}, CUDAVersion{9, 0}},
	{[]int{361}, CUDAVersion{8, 0}},
	{[]int{352, 31}, CUDAVersion{7, 5}},
	{[]int{346, 46}, CUDAVersion{7, 0}},
	{[]int{340, 29}, CUDAVersion{6, 5}},
}

// cudaByDriver tells the CUDA version that a driver supports by the table; zero for
// drivers older than it, for branches that came after it and for text that is no
// version. It is the last resort: what the driver itself reports always wins.
func cudaByDriver(version string) CUDAVersion {
	var driver []int
	for part := range strings.SplitSeq(version, ".") {
		number, err := strconv.Atoi(part)
		if err != nil {
			return CUDAVersion{}
		}
		driver = append(driver, number)
	}
	if driver[0] > driverCUDA[0].driver[0] {
		return CUDAVersion{}
	}
	for _, row := range driverCUDA {
		if slices.Compare(driver, row.driver) >= 0 {
			return row.cuda
		}
	}
	return CUDAVersion{}
}
