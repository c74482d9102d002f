// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// brands are NVML's brand numbers as names, as requirement expressions of images
// use them (cuda-compat §3).
var brands = [...]string{
	"unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "vapps", "vpc",
	"vcs", "vws", "cloudgaming", "quadrortx", "nvidiartx", "nvidia", "geforcertx", "titanrtx",
}

// brandName names a brand number; a number beyond the table is "unknown".
func brandName(n uint32) string {
	if n >= uint32(len(brands)) {
		return brands[0]
	}
	return brands[n]
}
