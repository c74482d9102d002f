/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Memory errors: ECC counters, retired pages, remapped rows. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

#define BEGIN(name) \
	struct ref ref; \
	nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
	if (answer != NVML_SUCCESS) \
		return answer

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	BEGIN(nvmlDeviceGetEccMode);
	if (!pending)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_word(&ref, "ecc_mode", current);
	if (answer == NVML_SUCCESS && ref_word(&ref, "ecc_mode_pending", pending) != NVML_SUCCESS)
		*pending = *current;
	return nvml_end(answer);
}

/* The start of a counter's key: the counters since the driver was loaded are
 * plain, "ecc_l1"; lifetime and corrected ones carry a mark, "ecc_agg_corr_l1". */
static const char *const kinds[2][2] = {{"ecc_corr", "ecc_agg_corr"}, {"ecc", "ecc_agg"}};

/* Places as the ABI numbers them. Texture memory and what follows is not simulated. */
static const char *const places[] = {"l1", "l2", "mem", "reg"};

static nvmlReturn_t counter(const struct ref *ref, unsigned int type, unsigned int lifetime, const char *place, unsigned long long *out)
{
	char key[48];
	if (type > 1 || lifetime > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(key, sizeof key, "%s_%s", kinds[type][lifetime], place);
	return ref_number(ref, key, out);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int type, unsigned int lifetime,
	unsigned int place, unsigned long long *out)
{
	BEGIN(nvmlDeviceGetMemoryErrorCounter);
	if (place >= sizeof places / sizeof *places)
		return nvml_end(NVML_ERROR_NOT_SUPPORTED);
	return nvml_end(counter(&ref, type, lifetime, places[place], out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned int type, unsigned int lifetime, nvmlEccErrorCounts_t *out)
{
	BEGIN(nvmlDeviceGetDetailedEccErrors);
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	unsigned long long *const counts[] = {&out->l1Cache, &out->l2Cache, &out->deviceMemory, &out->registerFile};
	answer = NVML_ERROR_NOT_SUPPORTED;
	memset(out, 0, sizeof *out);
	for (unsigned int i = 0; i < sizeof places / sizeof *places; i++) {
		nvmlReturn_t one = counter(&ref, type, lifetime, places[i], counts[i]);
		if (one != NVML_ERROR_NOT_SUPPORTED)
			answer = one;
	}
	return nvml_end(answer);
}

/* The sum over all places that count. */
SIM_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int lifetime, unsigned long long *out)
{
	BEGIN(nvmlDeviceGetTotalEccErrors);
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	*out = 0;
	answer = NVML_ERROR_NOT_SUPPORTED;
	for (unsigned int i = 0; i < sizeof places / sizeof *places; i++) {
		unsigned long long one = 0;
		nvmlReturn_t got = counter(&ref, type, lifetime, places[i], &one);
		if (got != NVML_ERROR_NOT_SUPPORTED)
			answer = got;
		*out += one;
	}
	return nvml_end(answer);
}

/* Retired pages by cause: 0 several corrected errors, 1 one uncorrectable. The
 * simulated addresses are 64 KiB apart. */
SIM_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause, unsigned int *count, unsigned long long *addresses)
{
	BEGIN(nvmlDeviceGetRetiredPages);
	unsigned int pages;
	if (cause > 1 || !count)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_word(&ref, cause ? "retired_double_bit" : "retired_single_bit", &pages);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	const unsigned int room = *count;
	*count = pages;
	if (room < pages || (pages && !addresses))
		return nvml_end(NVML_ERROR_INSUFFICIENT_SIZE);
	for (unsigned int i = 0; i < pages; i++)
		addresses[i] = (i + 1ULL) << 16;
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
	unsigned int *pending, unsigned int *failed)
{
	BEGIN(nvmlDeviceGetRemappedRows);
	unsigned int *const outs[] = {corrected, uncorrected, pending, failed};
	static const char *const keys[] = {"remapped_corrected", "remapped_uncorrected", "remapped_pending", "remapped_failure"};
	for (int i = 0; i < 4 && answer == NVML_SUCCESS; i++)
		answer = ref_word(&ref, keys[i], outs[i]);
	return nvml_end(answer);
}
