/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Readings that are one text or number of the device's state, and the access to
 * that state which the other files use too. */
#include "nvml.h"

#include <stdlib.h>
#include <string.h>

/* Facts of the parent that a MIG device shares. */
static int inherited(const char *key)
{
	static const char *const keys[] = {"pci_bus_id", "pci_device_id", "pci_subsystem_id", "brand",
		"architecture", "compute_capability", "minor", "numa_node_id", "mig_max"};
	for (unsigned int i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strcmp(keys[i], key) == 0)
			return 1;
	return 0;
}

const char *ref_text(const struct ref *ref, const char *key)
{
	const char *text = sim_text("%s.%s", ref->prefix, key);
	if (!text && ref->mig >= 0 && inherited(key))
		text = sim_text("gpu.%d.%s", ref->gpu, key);
	return text;
}

nvmlReturn_t ref_number(const struct ref *ref, const char *key, unsigned long long *out)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	const char *text = ref_text(ref, key);
	if (!text)
		return NVML_ERROR_NOT_SUPPORTED;
	*out = strtoull(text, NULL, 0);
	return NVML_SUCCESS;
}

nvmlReturn_t ref_word(const struct ref *ref, const char *key, unsigned int *out)
{
	unsigned long long number;
	nvmlReturn_t answer = ref_number(ref, key, &number);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = (unsigned int)number;
	return NVML_SUCCESS;
}

nvmlReturn_t copy_text(char *out, unsigned int room, const char *text)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!text)
		return NVML_ERROR_NOT_SUPPORTED;
	if (strlen(text) >= room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

#define TEXT(name, key) \
	SIM_EXPORT nvmlReturn_t name(nvmlDevice_t device, char *out, unsigned int room) \
	{ \
		struct ref ref; \
		nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
		return answer == NVML_SUCCESS ? nvml_end(copy_text(out, room, ref_text(&ref, key))) : answer; \
	}

#define WORD(name, key) \
	SIM_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *out) \
	{ \
		struct ref ref; \
		nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
		return answer == NVML_SUCCESS ? nvml_end(ref_word(&ref, key, out)) : answer; \
	}

#define LONG(name, key) \
	SIM_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned long long *out) \
	{ \
		struct ref ref; \
		nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
		return answer == NVML_SUCCESS ? nvml_end(ref_number(&ref, key, out)) : answer; \
	}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")

WORD(nvmlDeviceGetMinorNumber, "minor")
WORD(nvmlDeviceGetBrand, "brand")
WORD(nvmlDeviceGetArchitecture, "architecture")
WORD(nvmlDeviceGetNumGpuCores, "cores")
WORD(nvmlDeviceGetMemoryBusWidth, "mem_bus_width_bits")
WORD(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
WORD(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_limit_mw")
WORD(nvmlDeviceGetEnforcedPowerLimit, "power_enforced_limit_mw")
WORD(nvmlDeviceGetPowerUsage, "power_usage_mw")
WORD(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
WORD(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
WORD(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
WORD(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
WORD(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
WORD(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")
WORD(nvmlDeviceGetDisplayMode, "display_mode")
WORD(nvmlDeviceGetDisplayActive, "display_active")
WORD(nvmlDeviceGetPersistenceMode, "persistence_mode")
WORD(nvmlDeviceGetComputeMode, "compute_mode")
WORD(nvmlDeviceGetPerformanceState, "performance_state")
WORD(nvmlDeviceGetFanSpeed, "fan_pct")
WORD(nvmlDeviceGetNumFans, "fans")
WORD(nvmlDeviceGetMaxMigDeviceCount, "mig_max")
WORD(nvmlDeviceGetGpuInstanceId, "gi")
WORD(nvmlDeviceGetComputeInstanceId, "ci")
WORD(nvmlDeviceGetNumaNodeId, "numa_node_id")

LONG(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
LONG(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle_reasons")
LONG(nvmlDeviceGetCurrentClocksEventReasons, "throttle_reasons")
LONG(nvmlDeviceGetSupportedClocksThrottleReasons, "throttle_reasons_supported")
LONG(nvmlDeviceGetSupportedClocksEventReasons, "throttle_reasons_supported")
LONG(nvmlDeviceGetSupportedEventTypes, "event_types")
