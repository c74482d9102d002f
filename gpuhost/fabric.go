// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"unsafe"
)

// The states of a GPU's place in a fabric of NVLink switches.
const (
	fabricNotSupported = 0
	fabricCompleted    = 3
)

// fabricProblem says why a GPU that hangs on NVLink switches cannot be used yet;
// empty when it can or has no such fabric (cases DEV-35).
func fabricProblem(c *caller, device uintptr) string {
	info, err := askFabric(c, device)
	if err != nil {
		return ""
	}
	switch {
	case info.state == fabricNotSupported:
		return ""
	case info.state != fabricCompleted:
		return fmt.Sprintf("fabric not ready (state %d); is the fabric manager running?", info.state)
	case info.status != 0:
		return fmt.Sprintf("fabric not ready (%s); see the fabric manager's log", Code(info.status))
	}
	return ""
}

// askFabric asks with the newest call that the library has.
func askFabric(c *caller, device uintptr) (nvmlFabricInfoV3, error) {
	newest := nvmlFabricInfoV3{version: structVersion(unsafe.Sizeof(nvmlFabricInfoV3{}), 3)}
	err := c.call(fnFabricV, device, uintptr(unsafe.Pointer(&newest)))
	if err == nil || !notTold(err) {
		return newest, err
	}
	var first nvmlFabricInfo
	err = c.call(fnFabric, device, uintptr(unsafe.Pointer(&first)))
	return nvmlFabricInfoV3{status: first.status, state: first.state}, err
}
