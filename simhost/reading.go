// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// valueKind says how the value of a fact is written.
type valueKind int

const (
	textValue       valueKind = iota
	numberValue               // a whole number, not negative; "0x…" too
	flagValue                 // true or false, 1 or 0, on or off
	nameValue                 // one of the names of a table, or its number
	capabilityValue           // "8.0"
)

// fact is one thing that a GPU tells: a key of a profile's "nvml" or "cuda"
// object and of the state file.
type fact struct {
	key   string
	kind  valueKind
	names map[string]int // of a nameValue
	fixed bool           // an identity: only a profile sets it
	doc   string
}

var brands = map[string]int{"unknown": 0, "quadro": 1, "tesla": 2, "nvs": 3, "grid": 4, "geforce": 5, "titan": 6,
	"quadrortx": 12, "nvidiartx": 13, "nvidia": 14, "geforcertx": 15, "titanrtx": 16}

var architectures = map[string]int{"kepler": 2, "maxwell": 3, "pascal": 4, "volta": 5, "turing": 6, "ampere": 7,
	"ada": 8, "hopper": 9, "blackwell": 10}

// nvmlFacts are the keys of a device's "nvml" object. A key that is null or
// absent, and has no default, is NOT_SUPPORTED.
var nvmlFacts = []fact{
	{key: "name", kind: textValue, doc: "model name"},
	{key: "uuid", kind: textValue, fixed: true, doc: "UUID, GPU-…"},
	{key: "serial", kind: textValue, doc: "serial number of the board"},
	{key: "vbios_version", kind: textValue, doc: "version of the video BIOS"},
	{key: "pci_bus_id", kind: textValue, fixed: true, doc: "PCI address, 0000:0A:00.0"},
	{key: "pci_device_id", kind: numberValue, doc: "PCI device and vendor, 0x20B010DE"},
	{key: "pci_subsystem_id", kind: numberValue, doc: "PCI subsystem device and vendor"},
	{key: "minor", kind: numberValue, fixed: true, doc: "N of /dev/nvidiaN"},
	{key: "numa_node", kind: textValue, fixed: true, doc: "content of the sysfs file numa_node; null: no file"},
	{key: "numa_node_id", kind: numberValue, doc: "NUMA node of the GPU's own memory"},
	{key: "brand", kind: nameValue, names: brands, doc: "product line"},
	{key: "architecture", kind: nameValue, names: architectures, doc: "chip generation"},
	{key: "compute_capability", kind: capabilityValue, doc: "compute capability; default from cuda.major and cuda.minor"},
	{key: "cores", kind: numberValue, doc: "CUDA cores"},
	{key: "mem_total_bytes", kind: numberValue, doc: "frame buffer; default cuda.global_mem_bytes"},
	{key: "mem_used_bytes", kind: numberValue, doc: "used frame buffer"},
	{key: "mem_reserved_bytes", kind: numberValue, doc: "frame buffer that the driver keeps"},
	{key: "mem_bus_width_bits", kind: numberValue, doc: "width of the memory bus; default cuda.mem_bus_width_bits"},
	{key: "mem_temperature_c", kind: numberValue, doc: "temperature of the memory, °C"},
	{key: "bar1_total_bytes", kind: numberValue, doc: "size of the BAR1 aperture"},
	{key: "bar1_used_bytes", kind: numberValue, doc: "used part of it"},
	{key: "power_limit_mw", kind: numberValue, doc: "power limit that is set, mW"},
	{key: "power_enforced_limit_mw", kind: numberValue, doc: "power limit in force, mW; default power_limit_mw"},
	{key: "power_default_limit_mw", kind: numberValue, doc: "power limit from the factory, mW; default power_limit_mw"},
	{key: "power_min_limit_mw", kind: numberValue, doc: "lowest power limit, mW"},
	{key: "power_max_limit_mw", kind: numberValue, doc: "highest power limit, mW"},
	{key: "power_usage_mw", kind: numberValue, doc: "power drawn now, mW"},
	{key: "power_average_mw", kind: numberValue, doc: "power drawn over the last second, mW"},
	{key: "energy_mj", kind: numberValue, doc: "energy since the driver was loaded, mJ"},
	{key: "temperature_c", kind: numberValue, doc: "temperature of the chip, °C"},
	{key: "fan_pct", kind: numberValue, doc: "fan speed, %"},
	{key: "fans", kind: numberValue, doc: "number of fans"},
	{key: "util_gpu_pct", kind: numberValue, doc: "utilisation of the GPU, %"},
	{key: "util_mem_pct", kind: numberValue, doc: "utilisation of the memory interface, %"},
	{key: "util_enc_pct", kind: numberValue, doc: "utilisation of the encoder, %"},
	{key: "util_dec_pct", kind: numberValue, doc: "utilisation of the decoder, %"},
	{key: "clock_graphics_mhz", kind: numberValue, doc: "graphics clock now, MHz; default clock_sm_mhz"},
	{key: "clock_sm_mhz", kind: numberValue, doc: "SM clock now, MHz"},
	{key: "clock_mem_mhz", kind: numberValue, doc: "memory clock now, MHz"},
	{key: "clock_video_mhz", kind: numberValue, doc: "video clock now, MHz"},
	{key: "clock_max_graphics_mhz", kind: numberValue, doc: "highest graphics clock, MHz; default clock_max_sm_mhz"},
	{key: "clock_max_sm_mhz", kind: numberValue, doc: "highest SM clock, MHz"},
	{key: "clock_max_mem_mhz", kind: numberValue, doc: "highest memory clock, MHz"},
	{key: "clock_max_video_mhz", kind: numberValue, doc: "highest video clock, MHz"},
	{key: "throttle_reasons", kind: numberValue, doc: "bits of the reasons why clocks are low"},
	{key: "throttle_reasons_supported", kind: numberValue, doc: "bits of the reasons that the GPU tells"},
	{key: "performance_state", kind: numberValue, doc: "0 fastest … 15 slowest"},
	{key: "pcie_gen_max", kind: numberValue, doc: "highest PCIe generation"},
	{key: "pcie_width_max", kind: numberValue, doc: "highest PCIe width"},
	{key: "pcie_gen", kind: numberValue, doc: "PCIe generation now; default pcie_gen_max"},
	{key: "pcie_width", kind: numberValue, doc: "PCIe width now; default pcie_width_max"},
	{key: "pcie_rx_kbps", kind: numberValue, doc: "PCIe traffic to the GPU, KB/s"},
	{key: "pcie_tx_kbps", kind: numberValue, doc: "PCIe traffic from the GPU, KB/s"},
	{key: "pcie_replays", kind: numberValue, doc: "PCIe replays"},
	{key: "ecc_mode", kind: flagValue, doc: "ECC is on; default cuda.ecc_enabled where ECC counters are told"},
	{key: "ecc_mode_pending", kind: flagValue, doc: "ECC after the next reset; default ecc_mode"},
	{key: "ecc_l1", kind: numberValue, doc: "uncorrected errors since the driver was loaded, L1 cache"},
	{key: "ecc_l2", kind: numberValue, doc: "the same, L2 cache"},
	{key: "ecc_mem", kind: numberValue, doc: "the same, device memory"},
	{key: "ecc_reg", kind: numberValue, doc: "the same, registers"},
	{key: "ecc_corr_l1", kind: numberValue, doc: "corrected errors since the driver was loaded, L1 cache"},
	{key: "ecc_corr_l2", kind: numberValue, doc: "the same, L2 cache"},
	{key: "ecc_corr_mem", kind: numberValue, doc: "the same, device memory"},
	{key: "ecc_corr_reg", kind: numberValue, doc: "the same, registers"},
	{key: "ecc_agg_l1", kind: numberValue, doc: "uncorrected errors ever, L1 cache"},
	{key: "ecc_agg_l2", kind: numberValue, doc: "the same, L2 cache"},
	{key: "ecc_agg_mem", kind: numberValue, doc: "the same, device memory"},
	{key: "ecc_agg_reg", kind: numberValue, doc: "the same, registers"},
	{key: "ecc_agg_corr_l1", kind: numberValue, doc: "corrected errors ever, L1 cache"},
	{key: "ecc_agg_corr_l2", kind: numberValue, doc: "the same, L2 cache"},
	{key: "ecc_agg_corr_mem", kind: numberValue, doc: "the same, device memory"},
	{key: "ecc_agg_corr_reg", kind: numberValue, doc: "the same, registers"},
	{key: "retired_single_bit", kind: numberValue, doc: "pages retired after corrected errors"},
	{key: "retired_double_bit", kind: numberValue, doc: "pages retired after an uncorrectable error"},
	{key: "retired_pending", kind: flagValue, doc: "pages wait for a reset to be retired"},
	{key: "remapped_corrected", kind: numberValue, doc: "rows remapped after corrected errors"},
	{key: "remapped_uncorrected", kind: numberValue, doc: "rows remapped after uncorrectable errors"},
	{key: "remapped_pending", kind: flagValue, doc: "rows wait for a reset to be remapped"},
	{key: "remapped_failure", kind: flagValue, doc: "a row could not be remapped"},
	{key: "display_mode", kind: flagValue, doc: "a display is connected"},
	{key: "display_active", kind: flagValue, doc: "a display uses the GPU"},
	{key: "persistence_mode", kind: flagValue, doc: "persistence mode"},
	{key: "compute_mode", kind: numberValue, doc: "0 default, 2 prohibited, 3 exclusive process"},
	{key: "nvlinks", kind: numberValue, doc: "number of NVLinks"},
	{key: "nvlink_state", kind: flagValue, doc: "all NVLinks are up"},
	{key: "nvlink_version", kind: numberValue, doc: "NVLink version"},
	{key: "nvlink_remote", kind: textValue, doc: "PCI address at the other end of the NVLinks"},
	{key: "nvlink_tx_kib", kind: numberValue, doc: "data sent over NVLink, KiB"},
	{key: "nvlink_rx_kib", kind: numberValue, doc: "data received over NVLink, KiB"},
	{key: "fabric_state", kind: numberValue, doc: "0 not supported, 1 not started, 2 in progress, 3 completed"},
	{key: "fabric_status", kind: numberValue, doc: "NVML return code of the fabric's registration"},
	{key: "fabric_clique", kind: numberValue, doc: "clique of the fabric"},
	{key: "fabric_health_mask", kind: numberValue, doc: "health bits of the fabric"},
	{key: "fabric_health_summary", kind: numberValue, doc: "0 not supported, 1 healthy, 2 unhealthy, 3 limited"},
	{key: "mig_mode", kind: flagValue, doc: "MIG mode is on"},
	{key: "mig_mode_pending", kind: flagValue, doc: "MIG mode after the next reset; default mig_mode"},
	{key: "mig_max", kind: numberValue, doc: "how many MIG devices the GPU can have"},
	{key: "event_types", kind: numberValue, doc: "bits of the events that the GPU tells; 8 is XID"},
}

// cudaFacts are the keys of a device's "cuda" object.
var cudaFacts = []fact{
	{key: "major", kind: numberValue, doc: "compute capability, first number"},
	{key: "minor", kind: numberValue, doc: "compute capability, second number"},
	{key: "sm_count", kind: numberValue, doc: "multiprocessors"},
	{key: "ecc_enabled", kind: flagValue, doc: "ECC is on"},
	{key: "integrated", kind: flagValue, doc: "the GPU shares the host's memory"},
	{key: "unified_addressing", kind: flagValue, doc: "unified addressing"},
	{key: "global_mem_bytes", kind: numberValue, doc: "memory that programs can use"},
	{key: "const_mem_bytes", kind: numberValue, doc: "constant memory"},
	{key: "shared_mem_per_sm_bytes", kind: numberValue, doc: "shared memory of a multiprocessor"},
	{key: "shared_mem_per_block_bytes", kind: numberValue, doc: "shared memory of a block"},
	{key: "l2_bytes", kind: numberValue, doc: "L2 cache"},
	{key: "mem_clock_khz", kind: numberValue, doc: "memory clock, kHz"},
	{key: "mem_bus_width_bits", kind: numberValue, doc: "width of the memory bus"},
}

func factByKey(facts []fact, key string) (fact, bool) {
	for _, f := range facts {
		if f.key == key {
			return f, true
		}
	}
	return fact{}, false
}

// parse turns a value as people write it into the text of the state file.
func (f fact) parse(value string) (string, error) {
	switch f.kind {
	case numberValue:
		n, err := strconv.ParseUint(value, 0, 64)
		if err != nil {
			return "", fmt.Errorf("%s %q is not a whole number from 0 to %d", f.key, value, uint64(math.MaxUint64))
		}
		return strconv.FormatUint(n, 10), nil
	case flagValue:
		switch strings.ToLower(value) {
		case "true", "1", "on", "yes":
			return "1", nil
		case "false", "0", "off", "no":
			return "0", nil
		}
		return "", fmt.Errorf("%s %q is neither true nor false", f.key, value)
	case nameValue:
		return f.parseName(value)
	case capabilityValue:
		var major, minor uint
		if n, err := fmt.Sscanf(value, "%d.%d", &major, &minor); n != 2 || err != nil {
			return "", fmt.Errorf("%s %q does not look like \"8.0\"", f.key, value)
		}
		return value, nil
	default:
		if strings.ContainsAny(strings.TrimSuffix(value, "\n"), "\n\x00") {
			return "", fmt.Errorf("%s %q has more than one line", f.key, value)
		}
		return strings.TrimSuffix(value, "\n"), nil
	}
}

func (f fact) parseName(value string) (string, error) {
	if n, ok := f.names[strings.ToLower(value)]; ok {
		return strconv.Itoa(n), nil
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil {
		return strconv.FormatUint(n, 10), nil
	}
	known := make([]string, 0, len(f.names))
	for name := range f.names {
		known = append(known, name)
	}
	sort.Strings(known)
	return "", fmt.Errorf("%s %q is unknown; use a number or one of %s", f.key, value, strings.Join(known, ", "))
}

// parseJSON is parse for a value of a profile.
func (f fact) parseJSON(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return f.parse(v)
	case json.Number:
		return f.parse(v.String())
	case bool:
		return f.parse(strconv.FormatBool(v))
	default:
		return "", fmt.Errorf("%s has a value of a kind that it cannot have: %v", f.key, value)
	}
}
