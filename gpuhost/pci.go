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

// pciGPUs are the bus ids of the NVIDIA GPUs on the PCI bus that the nvidia
// kernel module drives (cases DEV-17), as NVML writes them.
func (r root) pciGPUs() []string {
	dir := r.system("/sys/bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var ids []string
	for _, entry := range entries {
		device := filepath.Join(dir, entry.Name())
		if isNVIDIAGPU(device) {
			ids = append(ids, shortBusID(entry.Name()))
		}
	}
	return ids
}

// isNVIDIAGPU looks at one PCI function: NVIDIA's vendor number, a VGA or 3D
// controller, bound to the driver "nvidia".
func isNVIDIAGPU(device string) bool {
	vendor, err := os.ReadFile(filepath.Join(device, "vendor"))
	if err != nil || strings.TrimSpace(string(vendor)) != "0x10de" {
		return false
	}
	class, err := os.ReadFile(filepath.Join(device, "class"))
	if err != nil || !strings.HasPrefix(string(class), "0x0300") && !strings.HasPrefix(string(class), "0x0302") {
		return false
	}
	driver, err := os.Readlink(filepath.Join(device, "driver"))
	return err == nil && filepath.Base(driver) == "nvidia"
}
