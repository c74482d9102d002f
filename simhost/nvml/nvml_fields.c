/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Field values: many readings in one call. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A field's number, where its value is in the state, and whether it is 64 bit wide. */
struct field {
	unsigned int id;
	const char *key;
	int wide;
};

static const struct field fields[] = {
	{1, "ecc_mode", 0},
	{2, "ecc_mode", 0},
	{7, "ecc_corr_l1", 1},
	{8, "ecc_l1", 1},
	{9, "ecc_corr_l2", 1},
	{10, "ecc_l2", 1},
	{11, "ecc_corr_mem", 1},
	{12, "ecc_mem", 1},
	{18, "ecc_agg_corr_l1", 1},
	{19, "ecc_agg_l1", 1},
	{20, "ecc_agg_corr_l2", 1},
	{21, "ecc_agg_l2", 1},
	{22, "ecc_agg_corr_mem", 1},
	{23, "ecc_agg_mem", 1},
	{29, "retired_single_bit", 0},
	{30, "retired_double_bit", 0},
	{31, "retired_pending", 0},
	{82, "mem_temperature_c", 0},
	{83, "energy_mj", 1},
	{91, "nvlinks", 0},
	{94, "pcie_replays", 0},
	{138, "nvlink_tx_kib", 1},
	{139, "nvlink_rx_kib", 1},
	{142, "remapped_corrected", 0},
	{143, "remapped_uncorrected", 0},
	{144, "remapped_pending", 0},
	{145, "remapped_failure", 0},
	{185, "power_average_mw", 0},
	{186, "power_usage_mw", 0},
	{187, "power_min_limit_mw", 0},
	{188, "power_max_limit_mw", 0},
	{189, "power_default_limit_mw", 0},
	{190, "power_enforced_limit_mw", 0},
	{192, "power_limit_mw", 0},
};

static void read_field(const struct ref *ref, nvmlFieldValue_t *value, long long now)
{
	value->timestamp = now;
	value->latencyUsec = 0;
	value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	for (unsigned int i = 0; i < sizeof fields / sizeof *fields; i++) {
		if (fields[i].id != value->fieldId)
			continue;
		unsigned long long number = 0;
		value->nvmlReturn = ref_number(ref, fields[i].key, &number);
		value->valueType = fields[i].wide ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_UNSIGNED_INT;
		value->value.ullVal = number;
		return;
	}
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	struct ref ref;
	nvmlReturn_t answer = nvml_begin_device(CALL_nvmlDeviceGetFieldValues, device, &ref);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!values || count < 0)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	for (int i = 0; i < count; i++)
		read_field(&ref, &values[i], t.tv_sec * 1000000LL + t.tv_nsec / 1000);
	return nvml_end(NVML_SUCCESS);
}
