// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// identity is what tells one GPU from another. The bus id is empty when this
// driver's library cannot tell any (cases DEV-01).
type identity struct {
	uuid  string
	busID string
	minor int
}

var errNoIdentity = errors.New("no UUID, minor number or bus id")

// found is a GPU that answered to its index.
type found struct {
	handle uintptr
	identity
}

// find asks for the GPU at an index and who it is.
func find(c *caller, index int) (found, error) {
	var f found
	if err := c.call(fnHandleByIndex, uintptr(index), uintptr(unsafe.Pointer(&f.handle))); err != nil {
		return f, err
	}
	uuid, err := c.text(fnUUID, f.handle, 96)
	if err != nil {
		return f, unidentified(err)
	}
	f.uuid = uuid
	minor, err := c.uint(fnMinor, f.handle)
	if err != nil {
		return f, unidentified(err)
	}
	f.minor = int(minor)
	f.busID, err = busID(c, f.handle)
	if err != nil && codeOf(err) != CodeFunctionNotFound {
		return f, unidentified(err)
	}
	return f, nil
}

// unidentified marks the plain "not told" of an identifying query: such a GPU is
// left out, while one that fails is listed as unhealthy.
func unidentified(err error) error {
	if notTold(err) {
		return fmt.Errorf("%w: %w", errNoIdentity, err)
	}
	return err
}

// busID asks for the PCI bus id in its legacy form, "0000:0A:00.0".
func busID(c *caller, device uintptr) (string, error) {
	var info nvmlPCIInfo
	if err := c.call(fnPCIInfo, device, uintptr(unsafe.Pointer(&info))); err != nil {
		return "", err
	}
	if legacy := cText(info.busIDLegacy[:]); strings.Count(legacy, ":") == 2 {
		return shortBusID(legacy), nil
	}
	return fmt.Sprintf("%04X:%02X:%02X.0", info.domain, info.bus, info.device), nil
}

// shortBusID cuts an 8-digit domain to 4 digits if it fits and writes the rest in
// upper case (nvidia-docker-v1 §3).
func shortBusID(id string) string {
	domain, rest, found := strings.Cut(strings.ToUpper(id), ":")
	if !found {
		return strings.ToUpper(id)
	}
	if len(domain) > 4 {
		domain = strings.TrimLeft(domain[:len(domain)-4], "0") + domain[len(domain)-4:]
	}
	return domain + ":" + rest
}
