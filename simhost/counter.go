// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counterPath is the file of counters, mapped by all processes that have a
// library open: how often the state changed, and one number for each of
// exportedCalls. All are 64 bit wide in the machine's byte order.
func counterPath(root string) string { return filepath.Join(stateDir(root), "calls") }

func counterSize() int { return 8 * (1 + len(exportedCalls)) }

func newCounters(root string) error {
	if err := os.WriteFile(counterPath(root), make([]byte, counterSize()), 0o666); err != nil {
		return err
	}
	return os.Chmod(counterPath(root), 0o666) // past the umask: any user's process counts
}

// withCounters gives the mapped file to a function.
func withCounters(root string, use func([]byte)) error {
	f, err := os.OpenFile(counterPath(root), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("call counters of the simulated host %q: %w", root, err)
	}
	defer func() { _ = f.Close() }() // nothing was written through it
	memory, err := unix.Mmap(int(f.Fd()), 0, counterSize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("call counters of the simulated host %q: %w", root, err)
	}
	use(memory)
	return unix.Munmap(memory)
}

// announceChange lets all processes look at the state again.
func announceChange(root string) error {
	return withCounters(root, func(memory []byte) {
		atomic.AddUint64((*uint64)(unsafe.Pointer(&memory[0])), 1)
	})
}

// Calls tells how often each function of the libraries was called since the host
// was made or ResetCalls. Functions that were not called are left out; without a
// host there is none.
func (h *Host) Calls() map[string]uint64 {
	calls := map[string]uint64{}
	text, err := os.ReadFile(counterPath(h.root))
	if err != nil || len(text) < counterSize() {
		return calls
	}
	for i, c := range exportedCalls {
		if n := binary.NativeEndian.Uint64(text[8*(1+i):]); n > 0 {
			calls[c.name] = n
		}
	}
	return calls
}

// ResetCalls sets all counters to 0. A call at the same moment may count or not.
func (h *Host) ResetCalls() error {
	return withCounters(h.root, func(memory []byte) { clear(memory[8:]) })
}
