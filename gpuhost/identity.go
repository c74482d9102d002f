// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// kernelGPUs are the GPUs that the kernel module knows, in the order of the PCI
// bus: a directory each, with a text of "name: value" lines.
func (r root) kernelGPUs() []identity {
	dir := filepath.Join(r.system("/proc/driver/nvidia"), "gpus")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var ids []identity
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name(), "information"))
		if err != nil {
			continue
		}
		if id, ok := parseInformation(string(text)); ok {
			id.busID = shortBusID(entry.Name())
			ids = append(ids, id)
		}
	}
	return ids
}

// parseInformation reads UUID and minor number of a GPU; false without them. A
// kernel module that has not started a GPU yet writes question marks.
func parseInformation(text string) (identity, bool) {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	minor, err := strconv.Atoi(values["Device Minor"])
	uuid := values["GPU UUID"]
	if err != nil || !strings.HasPrefix(uuid, "GPU-") || strings.Contains(uuid, "?") {
		return identity{}, false
	}
	return identity{uuid: uuid, minor: minor}, true
}
