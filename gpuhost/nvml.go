// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nvml is one loaded NVML library: a table of the functions it exports. Each
// function is looked up by name, so that a library of any age can be used and a
// missing function is an answer, not the end of the process (cases DEV-01).
type nvml struct {
	path    string
	handle  uintptr
	symbols [functionCount]symbol
}

// loadNVML loads a library, which must be a whole one of this machine: the
// loader itself does not survive every broken file.
func loadNVML(path string) (*nvml, error) {
	if strings.Contains(path, "/") {
		if _, err := readELF(path); err != nil {
			return nil, err
		}
	}
	handle, err := openLibrary(path)
	if err != nil {
		return nil, err
	}
	n := &nvml{path: path, handle: handle}
	for fn, names := range symbolNames {
		n.symbols[fn] = lookUp(handle, names)
	}
	return n, nil
}

// openLibrary loads a shared object so that its symbols stay its own.
func openLibrary(path string) (uintptr, error) {
	// The loader keeps its error text for the thread that failed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("cannot load %q: %w", path, err)
	}
	return handle, nil
}

// lookUp finds the first of the names that a library exports. The symbol keeps
// the first name when there is none, for the error.
func lookUp(handle uintptr, names []string) symbol {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, name := range names {
		if address, err := purego.Dlsym(handle, name); err == nil {
			return symbol{name: name, address: address}
		}
	}
	return symbol{name: names[0]}
}

// missing names the calls that the library exports in no version.
func (n *nvml) missing() []string {
	var names []string
	for _, s := range n.symbols {
		if s.address == 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// close unloads the library. Nothing of it may be running.
func (n *nvml) close() error { return purego.Dlclose(n.handle) }

// call calls a function and turns its return code into an error. It refuses
// without calling when the library lacks the function, when an earlier call of
// this caller found the whole GPU at fault, and when the caller was given up
// because a call took too long.
//
//go:uintptrescapes
func (c *caller) call(fn function, args ...uintptr) error {
	s := c.nvml.symbols[fn]
	if c.fault != nil {
		return c.fault
	}
	if s.address == 0 {
		return &Error{Call: s.name, Code: CodeFunctionNotFound}
	}
	if err := c.begin(s.name); err != nil {
		return c.failed(err)
	}
	code, _, _ := purego.SyscallN(s.address, args...)
	if err := c.end(); err != nil {
		return c.failed(err)
	}
	if Code(uint32(code)) == 0 {
		return nil
	}
	return c.failed(&Error{Call: s.name, Code: Code(uint32(code))})
}

// failed keeps an error that concerns the whole GPU.
func (c *caller) failed(err error) error {
	if isFault(err) {
		c.fault = err
	}
	return err
}

// has says whether the library exports a function in any version.
func (c *caller) has(fn function) bool { return c.nvml.symbols[fn].address != 0 }

// uint asks for one 32-bit number.
func (c *caller) uint(fn function, device uintptr) (uint64, error) {
	var value uint32
	err := c.call(fn, device, uintptr(unsafe.Pointer(&value)))
	return uint64(value), err
}

// uintOf asks for one 32-bit number that is chosen by a further number.
func (c *caller) uintOf(fn function, device uintptr, which uint32) (uint64, error) {
	var value uint32
	err := c.call(fn, device, uintptr(which), uintptr(unsafe.Pointer(&value)))
	return uint64(value), err
}

// bool asks for a switch.
func (c *caller) bool(fn function, device uintptr) (bool, error) {
	value, err := c.uint(fn, device)
	return value != 0, err
}

// text asks for a text of at most size-1 bytes.
func (c *caller) text(fn function, device uintptr, size int) (string, error) {
	buffer := make([]byte, size)
	err := c.call(fn, device, uintptr(unsafe.Pointer(&buffer[0])), uintptr(size))
	return cText(buffer), err
}

// systemText asks for a text about the whole host.
func (c *caller) systemText(fn function, size int) (string, error) {
	buffer := make([]byte, size)
	err := c.call(fn, uintptr(unsafe.Pointer(&buffer[0])), uintptr(size))
	return cText(buffer), err
}

// cText is the text up to the first NUL.
func cText(buffer []byte) string {
	text, _, _ := strings.Cut(string(buffer), "\x00")
	return text
}
