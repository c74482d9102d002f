/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Start and end of the library, its versions, and the start of every call. */
#define _GNU_SOURCE
#include "nvml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How often the library was started and not stopped, and the GPUs that the
 * driver listed at the first start: NVML enumerates only then. */
static int starts;
static uint64_t listed;
static int stop_fd = -1;

static nvmlReturn_t translate(enum sim_trouble trouble, int code)
{
	switch (trouble) {
	case SIM_OK: return NVML_SUCCESS;
	case SIM_FAULT: return code;
	case SIM_NOT_LOADED: return NVML_ERROR_DRIVER_NOT_LOADED;
	case SIM_MISMATCH: return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	case SIM_LOST: return NVML_ERROR_GPU_IS_LOST;
	}
	return NVML_ERROR_UNKNOWN;
}

/* Like nvml_begin, also while the library is not started. */
static nvmlReturn_t begin_any(int call, int gpu)
{
	int code = 0;
	const enum sim_trouble trouble = sim_begin(call, gpu, &code);
	nvmlReturn_t answer = translate(trouble, code);
	if (answer != NVML_SUCCESS)
		sim_end();
	return answer;
}

nvmlReturn_t nvml_begin(int call) { return nvml_begin_device(call, NULL, NULL); }

nvmlReturn_t nvml_begin_device(int call, nvmlDevice_t device, struct ref *ref)
{
	nvmlReturn_t answer = begin_any(call, device ? device->gpu : -1);
	if (!nvml_started()) {
		if (answer == NVML_SUCCESS)
			sim_end();
		return NVML_ERROR_UNINITIALIZED;
	}
	if (answer != NVML_SUCCESS || !ref)
		return answer;
	if (!device)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	ref->gpu = device->gpu;
	ref->mig = device->mig;
	if (ref->mig < 0)
		snprintf(ref->prefix, sizeof ref->prefix, "gpu.%d", ref->gpu);
	else
		snprintf(ref->prefix, sizeof ref->prefix, "gpu.%d.mig.%d", ref->gpu, ref->mig);
	if (ref->mig >= 0 && !nvml_mig_present(ref->gpu, ref->mig))
		return nvml_end(NVML_ERROR_NOT_FOUND);
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_end(nvmlReturn_t answer)
{
	sim_end();
	return answer;
}

int nvml_started(void) { return starts > 0; }
int nvml_stop_fd(void) { return stop_fd; }

static nvmlReturn_t start(int call)
{
	nvmlReturn_t answer = begin_any(call, -1);
	if (answer != NVML_SUCCESS)
		return answer;
	if (starts++ > 0)
		return nvml_end(NVML_SUCCESS);
	listed = 0;
	for (int gpu = 0; gpu < sim_gpu_total(); gpu++)
		if (sim_gpu_present(gpu))
			listed |= 1ULL << gpu;
	if (stop_fd >= 0)
		close(stop_fd);
	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlInit(void) { return start(CALL_nvmlInit); }
SIM_EXPORT nvmlReturn_t nvmlInit_v2(void) { return start(CALL_nvmlInit_v2); }

SIM_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return start(CALL_nvmlInitWithFlags);
}

SIM_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	int code = 0;
	enum sim_trouble trouble = sim_begin(CALL_nvmlShutdown, -1, &code);
	if (!nvml_started())
		return nvml_end(NVML_ERROR_UNINITIALIZED);
	/* A driver that is gone does not keep a process from stopping. */
	if (trouble == SIM_FAULT)
		return nvml_end(code);
	if (--starts == 0)
		eventfd_write(stop_fd, 1);
	return nvml_end(NVML_SUCCESS);
}

int nvml_visible(unsigned int n)
{
	for (int gpu = 0; gpu < SIM_MAX_GPUS; gpu++)
		if ((listed >> gpu & 1) && n-- == 0)
			return gpu;
	return -1;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int room)
{
	nvmlReturn_t answer = nvml_begin(CALL_nvmlSystemGetDriverVersion);
	if (answer != NVML_SUCCESS)
		return answer;
	return nvml_end(copy_text(version, room, sim_text("driver_version")));
}

/* Tells about the library, so it works without a driver. */
SIM_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int room)
{
	int code = 0;
	if (sim_begin(CALL_nvmlSystemGetNVMLVersion, -1, &code) == SIM_FAULT)
		return nvml_end(code);
	return nvml_end(copy_text(version, room, sim_text("nvml_version")));
}

static nvmlReturn_t cuda_version(int call, int *version)
{
	int code = 0;
	if (sim_begin(call, -1, &code) == SIM_FAULT)
		return nvml_end(code);
	unsigned long long number;
	if (!version)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (!sim_number(&number, "cuda_driver_version"))
		return nvml_end(NVML_ERROR_NOT_SUPPORTED);
	*version = (int)number;
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return cuda_version(CALL_nvmlSystemGetCudaDriverVersion, version);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return cuda_version(CALL_nvmlSystemGetCudaDriverVersion_v2, version);
}
