/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Handles: how callers find a GPU. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One handle a GPU and MIG slot, the same address as long as the process lives. */
static struct sim_device gpus[SIM_MAX_GPUS];
static struct sim_device migs[SIM_MAX_GPUS][NVML_MAX_MIG];

nvmlDevice_t nvml_handle(int gpu, int mig)
{
	if (mig < 0) {
		gpus[gpu] = (struct sim_device){gpu, -1};
		return &gpus[gpu];
	}
	migs[gpu][mig] = (struct sim_device){gpu, mig};
	return &migs[gpu][mig];
}

/* Ends a lookup: a lost GPU has no handle, a failing lookup of one GPU neither. */
static nvmlReturn_t found(int gpu, int mig, nvmlDevice_t *device)
{
	if (!sim_gpu_present(gpu) || sim_text("gpu.%d.lost", gpu))
		return nvml_end(NVML_ERROR_GPU_IS_LOST);
	*device = nvml_handle(gpu, mig);
	return nvml_end(NVML_SUCCESS);
}

static nvmlReturn_t count(int call, unsigned int *out)
{
	nvmlReturn_t answer = nvml_begin(call);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	for (*out = 0; nvml_visible(*out) >= 0; ++*out)
		;
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *out) { return count(CALL_nvmlDeviceGetCount, out); }
SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out) { return count(CALL_nvmlDeviceGetCount_v2, out); }

/* A lookup by index is a call about that GPU, so that faults of one GPU hit it. */
static nvmlReturn_t by_index(int call, unsigned int index, nvmlDevice_t *device)
{
	int gpu = nvml_visible(index);
	if (gpu < 0 || !device) {
		nvmlReturn_t answer = nvml_begin(call);
		return answer == NVML_SUCCESS ? nvml_end(NVML_ERROR_INVALID_ARGUMENT) : answer;
	}
	struct ref ref;
	nvmlReturn_t answer = nvml_begin_device(call, nvml_handle(gpu, -1), &ref);
	return answer == NVML_SUCCESS ? found(gpu, -1, device) : answer;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return by_index(CALL_nvmlDeviceGetHandleByIndex, index, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	return by_index(CALL_nvmlDeviceGetHandleByIndex_v2, index, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t answer = nvml_begin(CALL_nvmlDeviceGetHandleByUUID);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!uuid || !device)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned int n = 0; nvml_visible(n) >= 0; n++) {
		const int gpu = nvml_visible(n);
		const char *own = sim_text("gpu.%d.uuid", gpu);
		if (own && strcasecmp(own, uuid) == 0)
			return found(gpu, -1, device);
		for (int mig = 0; mig < NVML_MAX_MIG; mig++) {
			own = nvml_mig_present(gpu, mig) ? sim_text("gpu.%d.mig.%d.uuid", gpu, mig) : NULL;
			if (own && strcasecmp(own, uuid) == 0)
				return found(gpu, mig, device);
		}
	}
	return nvml_end(NVML_ERROR_NOT_FOUND);
}

/* A PCI address as three numbers; domains may have four or eight digits. */
static int same_bus_id(const char *a, const char *b)
{
	unsigned int da, ba, va, db, bb, vb;
	return sscanf(a, "%x:%x:%x", &da, &ba, &va) == 3 && sscanf(b, "%x:%x:%x", &db, &bb, &vb) == 3 &&
	       da == db && ba == bb && va == vb;
}

static nvmlReturn_t by_bus_id(int call, const char *bus_id, nvmlDevice_t *device)
{
	nvmlReturn_t answer = nvml_begin(call);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!bus_id || !device)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned int n = 0; nvml_visible(n) >= 0; n++) {
		const char *own = sim_text("gpu.%d.pci_bus_id", nvml_visible(n));
		if (own && same_bus_id(own, bus_id))
			return found(nvml_visible(n), -1, device);
	}
	return nvml_end(NVML_ERROR_NOT_FOUND);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	return by_bus_id(CALL_nvmlDeviceGetHandleByPciBusId, bus_id, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	return by_bus_id(CALL_nvmlDeviceGetHandleByPciBusId_v2, bus_id, device);
}
