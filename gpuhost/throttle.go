// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// throttleNames are NVML's reasons for clocks below their maximum, by bit.
var throttleNames = [...]string{
	"idle", "application clocks", "power cap", "hardware slowdown", "sync boost",
	"software thermal", "hardware thermal", "hardware power brake", "display clocks",
}

// ThrottleNames names the reasons in Reading.ThrottleReasons; empty for none.
func ThrottleNames(reasons uint64) []string {
	var names []string
	for bit, name := range throttleNames {
		if reasons&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}
