// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import "strings"

// Where an image tells its CUDA version when it writes no requirement.
const (
	LabelCUDAVersion   = "com.nvidia.cuda.version"
	LabelVolumesNeeded = "com.nvidia.volumes.needed"
	EnvCUDAVersion     = "CUDA_VERSION"
	EnvRequireCUDA     = "NVIDIA_REQUIRE_CUDA"
)

// imageCUDA is the CUDA version that an image says it contains.
type imageCUDA struct {
	version version // major.minor; empty: not told
	source  string  // variable or label
	written string  // the value as the image has it
	bad     bool    // a source before it was unreadable
}

// cudaOfImage reads CUDA_VERSION, else the label.
func cudaOfImage(md Metadata) imageCUDA {
	var found imageCUDA
	for _, s := range []struct{ name, value string }{
		{EnvCUDAVersion, md.Env[EnvCUDAVersion]},
		{LabelCUDAVersion, md.Labels[LabelCUDAVersion]},
	} {
		if strings.TrimSpace(s.value) == "" {
			continue
		}
		v, ok := parseImageCUDA(s.value)
		if !ok {
			found.bad = true
			continue
		}
		found.version, found.source, found.written = v, s.name, s.value
		return found
	}
	return found
}

// parseImageCUDA reads one to four numeric parts ("12.8.0.038"), of which the
// first two count.
func parseImageCUDA(s string) (version, bool) {
	const longest = 64 // far more than four parts of any release need
	if len(s) > longest {
		return "", false
	}
	v, ok := parseVersion(strings.TrimSpace(s))
	if !ok || strings.Count(string(v), ".") > 3 {
		return "", false
	}
	return v.majorMinor(), true
}

// compareCUDA checks the image's CUDA version against the host (cuda-compat §5
// step 8). It does not depend on the GPU.
func (o *outcome) compareCUDA(image imageCUDA, host facts) {
	if image.bad {
		o.warn(warnBadMetadata)
	}
	if image.version == "" {
		return
	}
	if host.cudaFromTable {
		o.warn(warnFromTable)
	}
	switch {
	case host.cuda == "":
		o.warn(warnUnknownValue)
	case image.version.compare(host.cuda.majorMinor()) <= 0:
	case runsByMinorVersion(image.version, host):
		o.warn(warnMinorVersion)
		if host.driver == "" {
			o.warn(warnUnknownValue)
		}
	default:
		o.unmet = append(o.unmet, &unmet{source: image.source, image: image, host: host})
	}
}

// runsByMinorVersion says whether the driver runs every minor release of the
// image's CUDA major version.
func runsByMinorVersion(image version, host facts) bool {
	floor, ok := minorVersionFloors[image.part(0)]
	if !ok {
		return false
	}
	if host.driver == "" { // then the reported CUDA version has to show it
		return host.cuda.part(0) == image.part(0)
	}
	return host.driver.compare(floor) >= 0
}
