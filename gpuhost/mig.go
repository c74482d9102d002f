// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// migState is what is known of a GPU's MIG devices.
type migState struct {
	mode    bool   // the GPU is in MIG mode
	slots   uint64 // how many MIG devices there can be; zero when not known
	devices []migFound
}

// migFound is a MIG device and its handle.
type migFound struct {
	MIGDevice
	handle uintptr // zero for one that is only remembered, of another session
}

// addTo gives a GPU its MIG devices.
func (m *migState) addTo(gpu *GPU) {
	gpu.MIGEnabled = m.mode
	for _, device := range m.devices {
		gpu.MIGDevices = append(gpu.MIGDevices, device.MIGDevice)
	}
}

// lastMIG is what was known last of the MIG devices of a GPU that fails now: they
// stay listed, instead of the GPU as a whole (cases DEV-11, DEV-13).
func (h *Host) lastMIG(slot *gpuSlot) migState {
	known := h.known[slot.id.busID]
	if slot.vitals.mig.mode || known.UUID != slot.id.uuid {
		return slot.vitals.mig
	}
	last := migState{mode: known.MIGEnabled}
	for _, device := range known.MIGDevices {
		last.devices = append(last.devices, migFound{MIGDevice: device})
	}
	return last
}

// askMIG asks for a GPU's MIG devices. A failing answer is the GPU's problem, since
// a GPU in MIG mode that passes for a whole one would be given away as such.
func askMIG(a *asker, device uintptr, known migState) (migState, error) {
	mode, err := askMIGMode(a.caller, device)
	if err != nil || !mode {
		return migState{}, err
	}
	now := migState{mode: true, slots: known.slots}
	if now.slots == 0 {
		if now.slots, err = a.uint(fnMIGMaxCount, device); err != nil && !notTold(err) {
			return migState{}, err
		}
	}
	now.devices, err = askMIGDevices(a, device, now.slots, known.devices)
	return now, err
}

// askMIGMode says whether a GPU is in MIG mode; one that knows no MIG is not.
func askMIGMode(c *caller, device uintptr) (bool, error) {
	var mode struct{ current, pending uint32 }
	err := c.call(fnMIGMode, device, uintptr(unsafe.Pointer(&mode.current)), uintptr(unsafe.Pointer(&mode.pending)))
	if notTold(err) {
		return false, nil
	}
	return mode.current != 0, err
}

// askMIGDevices lists the MIG devices of a GPU in MIG mode. What is known of one
// from the last time is not asked again; a handle alone does not tell that it is
// the same. One that vanishes while it is asked is left out.
func askMIGDevices(a *asker, device uintptr, slots uint64, known []migFound) ([]migFound, error) {
	var devices []migFound
	for i := range slots {
		var handle uintptr
		err := a.call(fnMIGHandle, device, uintptr(i), uintptr(unsafe.Pointer(&handle)))
		if codeOf(err) == CodeNotFound || notTold(err) {
			continue // an empty slot
		}
		if err != nil {
			return nil, err
		}
		uuid, err := a.text(fnUUID, handle, 96)
		if err != nil || uuid == "" {
			continue
		}
		at := slices.IndexFunc(known, func(m migFound) bool { return m.UUID == uuid })
		if at >= 0 {
			devices = append(devices, migFound{known[at].MIGDevice, handle})
		} else if mig, ok := askMIGDevice(a, handle, uuid); ok {
			devices = append(devices, migFound{mig, handle})
		}
	}
	return devices, nil
}

func askMIGDevice(a *asker, handle uintptr, uuid string) (MIGDevice, bool) {
	instance, err := a.uint(fnGPUInstanceID, handle)
	if err != nil {
		return MIGDevice{}, false
	}
	compute, err := a.uint(fnComputeInstanceID, handle)
	if err != nil {
		return MIGDevice{}, false
	}
	mig := MIGDevice{UUID: uuid, GPUInstanceID: int(instance), ComputeInstanceID: int(compute)}
	if memory, err := askMemoryInfo(a.caller, handle); err == nil {
		mig.TotalBytes = &memory.total
	}
	mig.Profile = askMIGProfile(a, handle)
	return mig, true
}

// askMIGProfile names the profile of a MIG device, "1g.5gb". Newer drivers say it
// in the device's name; else it follows from the slices and the memory.
func askMIGProfile(a *asker, handle uintptr) string {
	if name, err := a.text(fnName, handle, 96); err == nil {
		if _, profile, found := strings.Cut(name, " MIG "); found {
			return profile
		}
	}
	var attributes nvmlDeviceAttributes
	if err := a.call(fnAttributes, handle, uintptr(unsafe.Pointer(&attributes))); err != nil {
		a.refused(err)
		return "unknown"
	}
	return migProfile(attributes.gpuInstanceSlices, attributes.computeInstanceSlices, attributes.memorySizeMB)
}

// migProfile builds a profile's name; a compute instance that has not all slices
// of its GPU instance is named first, "1c.3g.20gb". Sizes are rounded up to GiB.
func migProfile(slices, computeSlices uint32, memoryMiB uint64) string {
	name := fmt.Sprintf("%dg.%dgb", slices, (memoryMiB+1023)/1024)
	if computeSlices != 0 && computeSlices < slices {
		return fmt.Sprintf("%dc.%s", computeSlices, name)
	}
	return name
}
