// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"os"
	"strconv"
	"strings"
)

// unsupported says why no GPU of this kind of machine can be used; empty when one
// was there, or when it is another kind of machine.
func (h *Host) unsupported() string {
	if len(h.known) > 0 {
		return ""
	}
	return h.root.unsupportedHost()
}

// unsupportedHost recognises machines whose NVIDIA GPUs are not reached through
// NVML and device nodes (cases DEV-26 and DEV-36); empty for any other.
func (r root) unsupportedHost() string {
	if exists(r.system("/dev/dxg")) {
		return "WSL2 is not supported: its GPUs have no device nodes of their own"
	}
	compatible, err := os.ReadFile(r.system("/sys/firmware/devicetree/base/compatible"))
	if exists(r.system("/etc/nv_tegra_release")) || err == nil && strings.Contains(string(compatible), "nvidia,tegra") {
		return "Tegra not supported: this board's GPU is not reached through NVML"
	}
	return ""
}

// hostMemory reads a line of /proc/meminfo in bytes; nil when it is not there.
func (r root) hostMemory(name string) *uint64 {
	text, err := os.ReadFile(r.system("/proc/meminfo"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != name+":" {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return nil
		}
		bytes := kib * 1024
		return &bytes
	}
	return nil
}

// unifiedMemory is the memory of a GPU that has none of its own: the host's
// (cases DEV-06).
func (r root) unifiedMemory() (total, used *uint64) {
	total = r.hostMemory("MemTotal")
	available := r.hostMemory("MemAvailable")
	if total == nil || available == nil || *available > *total {
		return total, nil
	}
	n := *total - *available
	return total, &n
}
