// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

// driverRelease is a driver version and the CUDA version that drivers report
// from there on, up to the next row.
type driverRelease struct {
	driver, cuda version
	// between: no toolkit came with it. Such a driver is nothing to recommend.
	between bool
}

// driverReleases are NVIDIA's Linux drivers from the first one that knows
// CUDA 6.5, oldest first (cuda-compat §4). Most rows are the minimum driver of a
// CUDA toolkit; the others are driver branches that fall between two toolkits
// or report a CUDA version before its toolkit's official minimum.
var driverReleases = []driverRelease{
	{driver: "340.29", cuda: "6.5"},
	{driver: "346.46", cuda: "7.0"},
	{driver: "352.31", cuda: "7.5"},
	{driver: "361", cuda: "8.0", between: true}, // reports 8.0 although 8.0 officially starts at 367.48
	{driver: "367.48", cuda: "8.0"},
	{driver: "375.26", cuda: "8.0"}, // of 8.0 GA2
	{driver: "384.81", cuda: "9.0"},
	{driver: "387", cuda: "9.1", between: true},
	{driver: "390.46", cuda: "9.1"},
	{driver: "396.26", cuda: "9.2"},
	{driver: "410.48", cuda: "10.0"},
	{driver: "415", cuda: "10.0", between: true},
	{driver: "418.39", cuda: "10.1"},
	{driver: "430", cuda: "10.1", between: true},
	{driver: "440.33", cuda: "10.2"},
	{driver: "450.36.06", cuda: "11.0"},
	{driver: "450.80.02", cuda: "11.0"}, // from here on all of CUDA 11 runs
	{driver: "455.23", cuda: "11.1"},
	{driver: "460.27.03", cuda: "11.2"},
	{driver: "465.19.01", cuda: "11.3"},
	{driver: "470.42.01", cuda: "11.4"},
	{driver: "495.29.05", cuda: "11.5"},
	{driver: "510.39.01", cuda: "11.6"},
	{driver: "515.43.04", cuda: "11.7"},
	{driver: "520.61.05", cuda: "11.8"},
	{driver: "525.60.13", cuda: "12.0"},
	{driver: "530.30.02", cuda: "12.1"},
	{driver: "535.54.03", cuda: "12.2"},
	{driver: "545.23.06", cuda: "12.3"},
	{driver: "550.54.14", cuda: "12.4"},
	{driver: "555.42.02", cuda: "12.5"},
	{driver: "560.28.03", cuda: "12.6"},
	{driver: "565", cuda: "12.7", between: true}, // no toolkit 12.7 exists
	{driver: "570.26", cuda: "12.8"},
	{driver: "575.51.03", cuda: "12.9"},
	{driver: "580.65.06", cuda: "13.0"},
	{driver: "590.44.01", cuda: "13.1"},
	{driver: "595.45.04", cuda: "13.2"},
	{driver: "610.43.02", cuda: "13.3"},
	{driver: "615", cuda: "13.4"},
}

// cudaOfDriver is the CUDA version that a driver supports by the table. Empty:
// the driver is unknown, older than the table, or of a branch that came after it.
func cudaOfDriver(driver version) version {
	last := driverReleases[len(driverReleases)-1]
	if driver == "" || compareNumbers(driver.branch(), last.driver.branch()) > 0 {
		return ""
	}
	var cuda version
	for _, r := range driverReleases {
		if driver.compare(r.driver) < 0 {
			break
		}
		cuda = r.cuda
	}
	return cuda
}

// driverOfCUDA is the first driver that supports a CUDA version by the table;
// empty when no listed driver does.
func driverOfCUDA(cuda version) version {
	for _, r := range driverReleases {
		if r.cuda.compare(cuda) >= 0 {
			return r.driver
		}
	}
	return ""
}

// minorVersionFloors maps a CUDA major version to the oldest driver that runs
// programs built with any of its minor releases. It starts with CUDA 11; before
// that every minor release needs its own minimum.
var minorVersionFloors = map[string]version{
	"11": "450.80.02",
	"12": "525.60.13",
	"13": "580.65.06",
}

// forwardTarget says that compat packages from CUDA version on run on a branch.
type forwardTarget struct {
	from     version
	branches []string
}

// forwardTargets are the host driver branches that NVIDIA lists for its forward
// compatibility packages. Branch 580 (for 13.1 and later) is left out: all of
// CUDA 13 runs on it without them. What an image lists itself counts besides.
var forwardTargets = []forwardTarget{
	{"12.3", []string{"535"}},
	{"12.9", []string{"570"}},
}
