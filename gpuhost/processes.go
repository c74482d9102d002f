// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"unsafe"
)

const (
	// processRoom is for how many processes more than last time there is room at
	// first.
	processRoom = 16
	// maxProcesses bounds what a library may claim.
	maxProcesses = 1 << 20
	// processNameSize is NVML's buffer for a process name in nvidia-docker v1,
	// the final NUL included.
	processNameSize = 64
)

// askProcesses lists the compute processes of a GPU; nil when the card does not
// tell, empty when there is none. A process that ends before its name is asked
// is left out (nvidia-docker-v1 D6). Names of processes that were there in the
// last sample are not asked again.
func askProcesses(a *asker, device uintptr, last []Process) []Process {
	found, err := listProcesses(a.caller, device, len(last))
	if err != nil {
		a.refused(err)
		return nil
	}
	names := make(map[int]string, len(last))
	for _, process := range last {
		names[process.PID] = process.Name
	}
	processes := make([]Process, 0, len(found))
	for _, p := range found {
		process := Process{PID: int(p.pid)}
		if p.usedMemory != noValue {
			process.MemoryUsedBytes = &p.usedMemory
		}
		name, known := names[process.PID]
		if !known {
			name, known = processName(a, p.pid)
		}
		if process.Name = name; known {
			processes = append(processes, process)
		}
	}
	return processes
}

// processName asks for the name of a process; false when it has ended. A driver
// that tells no names gives an empty one.
func processName(a *asker, pid uint32) (string, bool) {
	buffer := make([]byte, processNameSize)
	err := a.call(fnProcessName, uintptr(pid), uintptr(unsafe.Pointer(&buffer[0])), processNameSize)
	if err == nil {
		return cText(buffer), true
	}
	if codeOf(err) == CodeNotFound {
		return "", false
	}
	a.refused(err)
	return "", true
}

// listProcesses asks with the newest call that the library has. The first form
// of the call has smaller records than the later ones.
func listProcesses(c *caller, device uintptr, last int) ([]nvmlProcessV2, error) {
	room := uint32(last + processRoom)
	if c.has(fnProcesses) {
		return fillProcesses[nvmlProcessV2](c, fnProcesses, device, room)
	}
	old, err := fillProcesses[nvmlProcessV1](c, fnProcessesV1, device, room)
	processes := make([]nvmlProcessV2, len(old))
	for i, p := range old {
		processes[i] = nvmlProcessV2{pid: p.pid, usedMemory: p.usedMemory}
	}
	return processes, err
}

// errGrowing ends the search for enough room when a library claims ever more.
var errGrowing = errors.New("the number of processes keeps growing")

// fillProcesses gives a call room for its records, and more when that is too
// little.
func fillProcesses[T any](c *caller, fn function, device uintptr, room uint32) ([]T, error) {
	for room <= maxProcesses {
		records := make([]T, room)
		count := room
		err := c.call(fn, device, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&records[0])))
		if err == nil {
			return records[:min(count, room)], nil
		}
		if codeOf(err) != CodeInsufficientSize {
			return nil, err
		}
		room = max(2*room, count+count/2)
	}
	return nil, errGrowing
}
