// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// v1LastBranch is the last driver branch whose packages brought their own
// OpenGL loaders and that nvidia-docker v1 was used with. Up to it the volume
// holds the loaders that v1 took and nothing beside v1's list of utilities, so
// that a host moved over from v1 finds the same tree. Later the loaders come
// from the distribution (libglvnd): built against the host's C library, they
// could not be loaded in an older image, and an image that draws has its own.
const v1LastBranch = 384

// driverVersion matches "352.39" and "535.104.05".
var driverVersion = regexp.MustCompile(`^[0-9]{3,}(?:\.[0-9]+){1,2}$`)

// splitLibrary cuts "libcuda.so.352.39" into "libcuda" and "352.39"; suffix is
// empty when nothing follows ".so", ok false when the name is no library's.
func splitLibrary(name string) (stem, suffix string, ok bool) {
	stem, rest, ok := strings.Cut(name, ".so")
	if !ok || stem == "" || (rest != "" && rest[0] != '.') {
		return "", "", false
	}
	return stem, strings.TrimPrefix(rest, "."), true
}

// ofV1 says whether a driver version is of nvidia-docker v1's time.
func ofV1(version string) bool { return branch(version) <= v1LastBranch }

// branch is the number of a driver's branch, 535 of "535.104.05"; a version that is
// no number counts as the newest.
func branch(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return math.MaxInt
	}
	return n
}

// looksNVIDIA says whether a name without a table entry is of NVIDIA's making.
func looksNVIDIA(stem string) bool {
	return strings.HasPrefix(stem, "libnvidia-") || strings.HasSuffix(stem, "_nvidia")
}
