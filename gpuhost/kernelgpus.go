// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// kernelGPU is what the kernel module tells of a GPU.
type kernelGPU struct {
	identity
	model string // as NVML names it; empty when it is not told
}

// kernelGPUs are the GPUs that the kernel module knows, in the order of the PCI
// bus: a directory each, with a text of "name: value" lines.
func (r root) kernelGPUs() []kernelGPU {
	dir := filepath.Join(r.system("/proc/driver/nvidia"), "gpus")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var gpus []kernelGPU
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name(), "information"))
		if err != nil {
			continue
		}
		if gpu, ok := parseInformation(string(text)); ok {
			gpu.busID = shortBusID(entry.Name())
			gpus = append(gpus, gpu)
		}
	}
	return gpus
}

// parseInformation reads UUID, minor number and model of a GPU; false without the
// first two. A kernel module that has not started a GPU yet writes question marks.
func parseInformation(text string) (kernelGPU, bool) {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	minor, err := strconv.Atoi(values["Device Minor"])
	uuid := values["GPU UUID"]
	if err != nil || !strings.HasPrefix(uuid, "GPU-") || strings.Contains(uuid, "?") {
		return kernelGPU{}, false
	}
	return kernelGPU{identity: identity{uuid: uuid, minor: minor}, model: values["Model"]}, true
}
