/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Readings that are structs or take a selector. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

#define BEGIN(name) \
	struct ref ref; \
	nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
	if (answer != NVML_SUCCESS) \
		return answer

/* Total and used of one kind of memory; free is what is left. */
static nvmlReturn_t memory(const struct ref *ref, const char *total_key, const char *used_key, nvmlMemory_t *out)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	nvmlMemory_t m = {0, 0, 0};
	nvmlReturn_t answer = ref_number(ref, total_key, &m.total);
	if (answer == NVML_SUCCESS)
		answer = ref_number(ref, used_key, &m.used);
	if (answer != NVML_SUCCESS)
		return answer;
	m.free = m.total > m.used ? m.total - m.used : 0;
	*out = m;
	return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
	BEGIN(nvmlDeviceGetMemoryInfo);
	return nvml_end(memory(&ref, "mem_total_bytes", "mem_used_bytes", out));
}

/* The second version counts reserved memory on its own, not as used. */
SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
	BEGIN(nvmlDeviceGetMemoryInfo_v2);
	nvmlMemory_t m;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (out->version != NVML_STRUCT_WORD(nvmlMemory_v2_t, 2))
		return nvml_end(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	answer = memory(&ref, "mem_total_bytes", "mem_used_bytes", &m);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	out->total = m.total;
	out->reserved = 0;
	ref_number(&ref, "mem_reserved_bytes", &out->reserved);
	out->used = m.used;
	out->free = m.free > out->reserved ? m.free - out->reserved : 0;
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *out)
{
	BEGIN(nvmlDeviceGetBAR1MemoryInfo);
	return nvml_end(memory(&ref, "bar1_total_bytes", "bar1_used_bytes", (nvmlMemory_t *)out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *low, unsigned int *high)
{
	BEGIN(nvmlDeviceGetPowerManagementLimitConstraints);
	answer = ref_word(&ref, "power_min_limit_mw", low);
	if (answer == NVML_SUCCESS)
		answer = ref_word(&ref, "power_max_limit_mw", high);
	return nvml_end(answer);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *out)
{
	BEGIN(nvmlDeviceGetTemperature);
	return nvml_end(sensor ? NVML_ERROR_INVALID_ARGUMENT : ref_word(&ref, "temperature_c", out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *out)
{
	BEGIN(nvmlDeviceGetTemperatureV);
	if (!out || out->sensorType)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (out->version != NVML_STRUCT_WORD(nvmlTemperature_t, 1))
		return nvml_end(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	return nvml_end(ref_word(&ref, "temperature_c", (unsigned int *)&out->temperature));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
	BEGIN(nvmlDeviceGetUtilizationRates);
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_word(&ref, "util_gpu_pct", &out->gpu);
	if (answer == NVML_SUCCESS)
		answer = ref_word(&ref, "util_mem_pct", &out->memory);
	return nvml_end(answer);
}

/* A utilisation and the time over which it was measured, 167 ms as on real cards. */
static nvmlReturn_t engine(const struct ref *ref, const char *key, unsigned int *utilization, unsigned int *period)
{
	if (!period)
		return NVML_ERROR_INVALID_ARGUMENT;
	*period = 167000;
	return ref_word(ref, key, utilization);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)
{
	BEGIN(nvmlDeviceGetEncoderUtilization);
	return nvml_end(engine(&ref, "util_enc_pct", utilization, period));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)
{
	BEGIN(nvmlDeviceGetDecoderUtilization);
	return nvml_end(engine(&ref, "util_dec_pct", utilization, period));
}

/* Clocks are numbered graphics, SM, memory, video. */
static nvmlReturn_t clock_word(const struct ref *ref, const char *const keys[4], unsigned int type, unsigned int *out)
{
	return type < 4 ? ref_word(ref, keys[type], out) : NVML_ERROR_INVALID_ARGUMENT;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *out)
{
	static const char *const keys[4] = {"clock_graphics_mhz", "clock_sm_mhz", "clock_mem_mhz", "clock_video_mhz"};
	BEGIN(nvmlDeviceGetClockInfo);
	return nvml_end(clock_word(&ref, keys, type, out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *out)
{
	static const char *const keys[4] = {"clock_max_graphics_mhz", "clock_max_sm_mhz", "clock_max_mem_mhz", "clock_max_video_mhz"};
	BEGIN(nvmlDeviceGetMaxClockInfo);
	return nvml_end(clock_word(&ref, keys, type, out));
}

/* 0 sent, 1 received. */
SIM_EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *out)
{
	BEGIN(nvmlDeviceGetPcieThroughput);
	if (counter > 1)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	return nvml_end(ref_word(&ref, counter ? "pcie_rx_kbps" : "pcie_tx_kbps", out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *out)
{
	BEGIN(nvmlDeviceGetFanSpeed_v2);
	unsigned int fans = 1;
	ref_word(&ref, "fans", &fans);
	return nvml_end(fan < fans ? ref_word(&ref, "fan_pct", out) : NVML_ERROR_INVALID_ARGUMENT);
}
