// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"unsafe"
)

// vitals are what is asked of a GPU at every inventory.
type vitals struct {
	device uintptr // the handle that answered
	mig    migState
	fields map[uint32]uint64 // the health fields that the card tells
	// inFabric: nothing keeps the GPU from its fabric of NVLink switches, or it has
	// none. Once so it is not asked again in a session, unless there is a fault.
	inFabric bool
	fabric   string // what keeps it from it
}

// healthFields are the field values that say whether a GPU may go on: pending
// page retirement, pending and failed row remapping.
var healthFields = []uint32{fieldRetiredPending, fieldRemapPending, fieldRemapFailed}

// errReplaced is a GPU that is not where it was.
var errReplaced = errors.New("another GPU is at index")

// findAgain asks what a GPU that was at fault must answer before it is trusted
// again (cases DEV-15): it is at its index, and tells its memory.
func findAgain(c *caller, index int, uuid string) (uintptr, error) {
	again, err := find(c, index)
	if err != nil {
		return 0, err
	}
	if again.uuid != uuid {
		return 0, fmt.Errorf("%w %d: %s", errReplaced, index, again.uuid)
	}
	if _, err := askMemoryInfo(c, again.handle); err != nil && !notTold(err) {
		return 0, err
	}
	return again.handle, nil
}

// checkVitals asks whether a GPU still answers and what concerns its health: at
// most three calls for a GPU that is not in MIG mode. known is what was found out
// about it the last time.
func checkVitals(a *asker, device uintptr, known vitals) (vitals, error) {
	if _, err := askTemperature(a.caller, device); err != nil && !notTold(err) {
		return vitals{}, err
	}
	v := vitals{device: device, fields: askHealthFields(a, device)}
	var err error
	if v.mig, err = askMIG(a, device, known.mig); err != nil {
		return vitals{}, err
	}
	if !known.inFabric {
		v.fabric = fabricProblem(a.caller, device)
	}
	v.inFabric = v.fabric == ""
	return v, a.fault
}

// askHealthFields asks for the health fields. Drivers without field values, before
// 384, have a call of its own for the only one that their cards know.
func askHealthFields(a *asker, device uintptr) map[uint32]uint64 {
	if a.has(fnFieldValues) {
		return askFields(a, device, healthFields)
	}
	pending := a.number(a.uint(fnRetiredPending, device))
	if pending == nil {
		return nil
	}
	return map[uint32]uint64{fieldRetiredPending: *pending}
}

// sensorGPU is the only temperature sensor that NVML knows.
const sensorGPU = 0

// askTemperature asks with the call that all drivers have had so far, or with the
// one that is to follow it.
func askTemperature(c *caller, device uintptr) (uint64, error) {
	if c.has(fnTemperature) || !c.has(fnTemperatureV) {
		return c.uintOf(fnTemperature, device, sensorGPU)
	}
	answer := nvmlTemperature{version: structVersion(unsafe.Sizeof(nvmlTemperature{}), 1), sensor: sensorGPU}
	err := c.call(fnTemperatureV, device, uintptr(unsafe.Pointer(&answer)))
	return uint64(max(answer.temperature, 0)), err
}

// problem says in one line what the vitals show; empty when nothing is wrong.
func (v *vitals) problem() string {
	switch {
	case v.fields[fieldRemapFailed] != 0:
		return "row remapping failed; the GPU needs replacement"
	case v.fields[fieldRemapPending] != 0:
		return "row remapping pending; reset the GPU to complete it"
	case v.fields[fieldRetiredPending] != 0:
		return "page retirement pending; reset the GPU or reboot to complete it"
	}
	return v.fabric
}
