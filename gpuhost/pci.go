// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// numaNode reads the NUMA node of a GPU; nil when the system does not tell or the
// machine has no nodes (-1).
func (r root) numaNode(busID string) *int {
	if busID == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(r.system("/sys/bus/pci/devices"), strings.ToLower(busID), "numa_node"))
	if err != nil {
		return nil
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return nil
	}
	return &node
}

// The kernel drivers to which an NVIDIA GPU may be bound and that matter here.
const (
	driverNVIDIA  = "nvidia"
	driverNouveau = "nouveau"
)

// pciGPUs are the bus ids of the NVIDIA GPUs on the PCI bus that a kernel driver
// has, as NVML writes them (cases DEV-17).
func (r root) pciGPUs(driver string) []string {
	dir := r.system("/sys/bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var ids []string
	for _, entry := range entries {
		device := filepath.Join(dir, entry.Name())
		if isNVIDIAGPU(device) && isBound(device, driver) {
			ids = append(ids, shortBusID(entry.Name()))
		}
	}
	return ids
}

// isNVIDIAGPU looks at one PCI function: NVIDIA's vendor number, a VGA or 3D
// controller.
func isNVIDIAGPU(device string) bool {
	vendor, err := os.ReadFile(filepath.Join(device, "vendor"))
	if err != nil || strings.TrimSpace(string(vendor)) != "0x10de" {
		return false
	}
	class, err := os.ReadFile(filepath.Join(device, "class"))
	return err == nil && (strings.HasPrefix(string(class), "0x0300") || strings.HasPrefix(string(class), "0x0302"))
}

// isBound says whether a kernel driver has a PCI function.
func isBound(device, driver string) bool {
	link, err := os.Readlink(filepath.Join(device, "driver"))
	return err == nil && filepath.Base(link) == driver
}
