// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"
)

// unavailableOf are the statistics of a device that have no value.
func unavailableOf(stats *device.DeviceStats) []string {
	var names []string
	for name, value := range stats.Stats.Attributes {
		if value.StringVal != nil && *value.StringVal == notAvailable {
			names = append(names, name)
		}
	}
	return names
}

// TestFingerprint_gh200: without a BAR1 aperture only what tells of it is missing
// (cases DEV-05).
func TestFingerprint_gh200(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "gh200-580"))
	groups := fingerprint(t, p).until(withUsable(1))
	must.Eq(t, map[string]int{"NVIDIA GH200 480GB": 1}, groupSizes(groups))
	must.Eq(t, attributeMap{
		"memory": num(97871, "MiB"), "power": num(900, "W"), "driver_version": str("580.95.05"), "cuda_version": str("13.0"),
		"cores_clock": num(1980, "MHz"), "memory_clock": num(2619, "MHz"), "pci_bandwidth": num(63008, "MB/s"),
		"display_state": str("Disabled"), "persistence_mode": str("Enabled"), "compute_capability": str("9.0"),
		"architecture": str("Hopper"), "brand": str("nvidia"), "ecc": structs.NewBoolAttribute(true),
		"cores": num(16896, ""), "numa_node": num(0, ""),
	}, groups[0].Attributes)

	id := groups[0].Devices[0].ID
	stats := statistics(t, p, func(s map[string]*device.DeviceStats) bool { return s[id] != nil })[id]
	values := stats.Stats.Attributes
	must.Eq(t, "N/A", *values["BAR1 buffer state"].StringVal)
	must.Nil(t, values["BAR1 buffer state"].IntNumeratorVal)
	must.Eq(t, 4, *stats.Summary.IntNumeratorVal)
	must.Eq(t, 97871, *stats.Summary.IntDenominatorVal)
	must.Eq(t, 98, *values["Power usage"].IntNumeratorVal)
	must.Eq(t, 900, *values["Power usage"].IntDenominatorVal)
}

// TestFingerprint_gb10: a GPU that works in the host's memory has the host's
// numbers, and no power limit is no fault (cases DEV-05 and DEV-06).
func TestFingerprint_gb10(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "gb10-580")
	must.NoError(t, os.WriteFile(filepath.Join(sim.Root(), "proc/meminfo"),
		[]byte("MemTotal:       125489508 kB\nMemFree:               1 kB\nMemAvailable:   100913508 kB\n"), 0o600))
	p := testPlugin(t, sim)
	groups := fingerprint(t, p).until(withUsable(1))
	must.Eq(t, map[string]int{"NVIDIA GB10": 1}, groupSizes(groups))
	must.Eq(t, attributeMap{
		"memory": num(122548, "MiB"), "unified_memory": structs.NewBoolAttribute(true), "driver_version": str("580.95.05"),
		"cuda_version": str("13.0"), "cores_clock": num(3003, "MHz"), "pci_bandwidth": num(250, "MB/s"),
		"display_state": str("Disabled"), "persistence_mode": str("Enabled"), "compute_capability": str("12.1"), "ecc": structs.NewBoolAttribute(false),
		"architecture": str("Blackwell"), "brand": str("nvidia"), "cores": num(6144, ""), "numa_node": num(0, ""),
	}, groups[0].Attributes)
	result, comparable := groups[0].Attributes["memory"].Compare(structs.ParseAttribute("2 GiB"))
	must.True(t, comparable)
	must.Positive(t, result)

	id := groups[0].Devices[0].ID
	stats := statistics(t, p, func(s map[string]*device.DeviceStats) bool { return s[id] != nil })[id]
	must.Eq(t, 24000, *stats.Summary.IntNumeratorVal) // of MemTotal, what MemAvailable leaves
	must.Eq(t, 122548, *stats.Summary.IntDenominatorVal)
	must.SliceContainsAll(t, unavailableOf(stats), []string{
		"Power usage", "BAR1 buffer state", "Memory clock", "Fan speed", "Memory temperature", "Energy", "PCIe received", "PCIe sent",
		"NVLink received", "NVLink sent", "ECC L1 errors", "ECC L2 errors", "ECC memory errors", "Retired pages, single bit",
		"Retired pages, double bit", "Remapped rows, corrected", "Remapped rows, uncorrected",
	})
	must.Eq(t, 38, *stats.Stats.Attributes["Temperature"].IntNumeratorVal)
}
