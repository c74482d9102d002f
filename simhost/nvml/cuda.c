/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* A stand-in for libcuda: the few driver-API calls that tell what a GPU is. It
 * starts no program on a GPU and has no contexts. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_UNKNOWN = 999
};

/* The GPUs that CUDA may use, in the order of its device numbers; set by cuInit. */
static int devices[SIM_MAX_GPUS], device_count, started;

static CUresult translate(enum sim_trouble trouble, int code)
{
	switch (trouble) {
	case SIM_OK: return CUDA_SUCCESS;
	case SIM_FAULT: return code;
	case SIM_MISMATCH: return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	case SIM_NOT_LOADED: return CUDA_ERROR_NO_DEVICE;
	case SIM_LOST: return CUDA_ERROR_UNKNOWN;
	}
	return CUDA_ERROR_UNKNOWN;
}

static CUresult end(CUresult answer)
{
	sim_end();
	return answer;
}

/* Starts a call about a device; locked if it answers CUDA_SUCCESS. */
static CUresult begin(int call, CUdevice device, int *gpu)
{
	int code = 0;
	*gpu = device >= 0 && device < device_count ? devices[device] : -1;
	enum sim_trouble trouble = sim_begin(call, *gpu, &code);
	CUresult answer = translate(trouble, code);
	if (answer == CUDA_SUCCESS && !started)
		answer = CUDA_ERROR_NOT_INITIALIZED;
	if (answer == CUDA_SUCCESS && *gpu < 0)
		answer = CUDA_ERROR_INVALID_DEVICE;
	return answer == CUDA_SUCCESS ? answer : end(answer);
}

SIM_EXPORT CUresult cuInit(unsigned int flags)
{
	(void)flags;
	int code = 0;
	enum sim_trouble trouble = sim_begin(CALL_cuInit, -1, &code);
	CUresult answer = translate(trouble, code);
	if (answer != CUDA_SUCCESS)
		return end(answer);
	device_count = 0;
	for (int gpu = 0; gpu < sim_gpu_total(); gpu++) {
		unsigned long long mig = 0;
		sim_number(&mig, "gpu.%d.mig_mode", gpu);
		if (sim_gpu_present(gpu) && !sim_text("gpu.%d.lost", gpu) && !mig)
			devices[device_count++] = gpu;
	}
	if (!device_count)
		return end(CUDA_ERROR_NO_DEVICE);
	started = 1;
	return end(CUDA_SUCCESS);
}

/* Works without cuInit and without a kernel module, as the real one does. */
SIM_EXPORT CUresult cuDriverGetVersion(int *version)
{
	int code = 0;
	unsigned long long number = 0;
	if (sim_begin(CALL_cuDriverGetVersion, -1, &code) == SIM_FAULT)
		return end(code);
	if (!version)
		return end(CUDA_ERROR_INVALID_VALUE);
	sim_number(&number, "cuda_driver_version");
	*version = (int)number;
	return end(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetCount(int *count)
{
	int code = 0;
	enum sim_trouble trouble = sim_begin(CALL_cuDeviceGetCount, -1, &code);
	CUresult answer = translate(trouble, code);
	if (answer == CUDA_SUCCESS && !started)
		answer = CUDA_ERROR_NOT_INITIALIZED;
	if (answer == CUDA_SUCCESS)
		*count = device_count;
	return end(answer);
}

SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	int gpu;
	CUresult answer = begin(CALL_cuDeviceGet, ordinal, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	*device = ordinal;
	return end(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
	int gpu;
	CUresult answer = begin(CALL_cuDeviceGetName, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	const char *own = sim_text("gpu.%d.name", gpu);
	snprintf(name, room > 0 ? room : 0, "%s", own ? own : "");
	return end(CUDA_SUCCESS);
}

/* A UUID as 16 bytes, from "GPU-1ab7d8d0-6f1e-…". */
static CUresult uuid(int call, unsigned char bytes[16], CUdevice device)
{
	int gpu;
	CUresult answer = begin(call, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	const char *text = sim_text("gpu.%d.uuid", gpu);
	text = text && strlen(text) > 4 ? text + 4 : "";
	memset(bytes, 0, 16);
	for (int n = 0; n < 16 && *text; n++) {
		unsigned int byte = 0;
		if (*text == '-')
			text++;
		if (sscanf(text, "%2x", &byte) != 1)
			break;
		bytes[n] = (unsigned char)byte;
		text += 2;
	}
	return end(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetUuid(unsigned char bytes[16], CUdevice device) { return uuid(CALL_cuDeviceGetUuid, bytes, device); }
SIM_EXPORT CUresult cuDeviceGetUuid_v2(unsigned char bytes[16], CUdevice device) { return uuid(CALL_cuDeviceGetUuid_v2, bytes, device); }

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *bus_id, int room, CUdevice device)
{
	int gpu;
	CUresult answer = begin(CALL_cuDeviceGetPCIBusId, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	const char *own = sim_text("gpu.%d.pci_bus_id", gpu);
	snprintf(bus_id, room > 0 ? room : 0, "%s", own ? own : "");
	return end(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus_id)
{
	int code = 0;
	unsigned int wanted[3], own[3];
	enum sim_trouble trouble = sim_begin(CALL_cuDeviceGetByPCIBusId, -1, &code);
	CUresult answer = translate(trouble, code);
	if (answer == CUDA_SUCCESS && !started)
		answer = CUDA_ERROR_NOT_INITIALIZED;
	if (answer == CUDA_SUCCESS && sscanf(bus_id, "%x:%x:%x", &wanted[0], &wanted[1], &wanted[2]) != 3)
		answer = CUDA_ERROR_INVALID_VALUE;
	if (answer != CUDA_SUCCESS)
		return end(answer);
	for (int n = 0; n < device_count; n++) {
		const char *text = sim_text("gpu.%d.pci_bus_id", devices[n]);
		if (!text || sscanf(text, "%x:%x:%x", &own[0], &own[1], &own[2]) != 3 || memcmp(own, wanted, sizeof own))
			continue;
		*device = n;
		return end(CUDA_SUCCESS);
	}
	return end(CUDA_ERROR_INVALID_DEVICE);
}

/* Attributes by their number in the driver API. */
struct attribute {
	int number;
	const char *key;
};

static const struct attribute attributes[] = {
	{8, "cuda.shared_mem_per_block_bytes"},
	{9, "cuda.const_mem_bytes"},
	{16, "cuda.sm_count"},
	{18, "cuda.integrated"},
	{32, "cuda.ecc_enabled"},
	{36, "cuda.mem_clock_khz"},
	{37, "cuda.mem_bus_width_bits"},
	{38, "cuda.l2_bytes"},
	{41, "cuda.unified_addressing"},
	{75, "cuda.major"},
	{76, "cuda.minor"},
	{81, "cuda.shared_mem_per_sm_bytes"},
};

SIM_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	int gpu;
	CUresult answer = begin(CALL_cuDeviceGetAttribute, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	for (unsigned int i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		if (attributes[i].number != attribute)
			continue;
		unsigned long long number = 0;
		sim_number(&number, "gpu.%d.%s", gpu, attributes[i].key);
		*value = (int)number;
		return end(CUDA_SUCCESS);
	}
	return end(CUDA_ERROR_INVALID_VALUE);
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	int gpu;
	unsigned long long high = 0, low = 0;
	CUresult answer = begin(CALL_cuDeviceComputeCapability, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	sim_number(&high, "gpu.%d.cuda.major", gpu);
	sim_number(&low, "gpu.%d.cuda.minor", gpu);
	*major = (int)high;
	*minor = (int)low;
	return end(CUDA_SUCCESS);
}

static CUresult total(int call, size_t *bytes, CUdevice device)
{
	int gpu;
	unsigned long long number = 0;
	CUresult answer = begin(call, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	sim_number(&number, "gpu.%d.cuda.global_mem_bytes", gpu);
	*bytes = number;
	return end(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) { return total(CALL_cuDeviceTotalMem, bytes, device); }
SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { return total(CALL_cuDeviceTotalMem_v2, bytes, device); }

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	int gpu;
	CUresult answer = begin(CALL_cuDeviceCanAccessPeer, device, &gpu);
	if (answer != CUDA_SUCCESS)
		return answer;
	if (peer < 0 || peer >= device_count)
		return end(CUDA_ERROR_INVALID_DEVICE);
	const int other = devices[peer];
	*can = sim_text("topology.%d.%d.peer", gpu < other ? gpu : other, gpu < other ? other : gpu) != NULL;
	return end(CUDA_SUCCESS);
}

struct word {
	int code;
	const char *name, *text;
};

static const struct word words[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
	{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const struct word *word(CUresult code)
{
	for (unsigned int i = 0; i < sizeof words / sizeof *words; i++)
		if (words[i].code == code)
			return &words[i];
	return NULL;
}

SIM_EXPORT CUresult cuGetErrorName(CUresult code, const char **text)
{
	sim_count(CALL_cuGetErrorName);
	const struct word *found = word(code);
	*text = found ? found->name : NULL;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
	sim_count(CALL_cuGetErrorString);
	const struct word *found = word(code);
	*text = found ? found->text : NULL;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
