// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The labels by which an image says what it needs.
const (
	volumesLabel = "com.nvidia.volumes.needed"
	cudaLabel    = "com.nvidia.cuda.version"
)

// volumesNeeded are the volumes a GPU image names; none: not a GPU image.
func volumesNeeded(labels map[string]string) []string {
	return strings.Fields(labels[volumesLabel])
}

var majorMinor = regexp.MustCompile(`^\s*(\d+)\.(\d+)`)

// checkCUDA compares the image's CUDA version with what the driver supports, by
// their leading major.minor (nvidia-docker-v1 IM-2).
func checkCUDA(labels map[string]string, supported string) error {
	wanted := labels[cudaLabel]
	if wanted == "" {
		return nil
	}
	image, err := parseCUDA(wanted)
	if err != nil {
		return fmt.Errorf("label %s of the image: %w", cudaLabel, err)
	}
	driver, err := parseCUDA(supported)
	if err != nil {
		return fmt.Errorf("cannot determine the driver's CUDA version: %w", err)
	}
	if image.newer(driver) {
		return fmt.Errorf("unsupported CUDA version: driver %s < image %s", supported, wanted)
	}
	return nil
}

type cudaVersion struct{ major, minor uint64 }

func parseCUDA(text string) (cudaVersion, error) {
	m := majorMinor.FindStringSubmatch(text)
	if m == nil {
		return cudaVersion{}, fmt.Errorf("version %q must look like %q", text, "8.0")
	}
	major, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil {
		return cudaVersion{}, fmt.Errorf("version %q: %w", text, err)
	}
	minor, err := strconv.ParseUint(m[2], 10, 32)
	if err != nil {
		return cudaVersion{}, fmt.Errorf("version %q: %w", text, err)
	}
	return cudaVersion{major: major, minor: minor}, nil
}

func (v cudaVersion) newer(than cudaVersion) bool {
	if v.major != than.major {
		return v.major > than.major
	}
	return v.minor > than.minor
}
