/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* MIG devices and their parents; the fabric of NVLink switches. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BEGIN(name) \
	struct ref ref; \
	nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
	if (answer != NVML_SUCCESS) \
		return answer

/* Where only the volume is, a MIG device counts if its two capability nodes exist. */
static int capability_node(int gpu, int mig, const char *which)
{
	char node[64];
	unsigned long long minor;
	if (!sim_number(&minor, "gpu.%d.mig.%d.%s", gpu, mig, which))
		return 0;
	snprintf(node, sizeof node, "/dev/nvidia-caps/nvidia-cap%llu", minor);
	return access(node, F_OK) == 0;
}

int nvml_mig_present(int gpu, int mig)
{
	unsigned long long mode = 0;
	if (!sim_number(&mode, "gpu.%d.mig_mode", gpu) || !mode || !sim_text("gpu.%d.mig.%d.uuid", gpu, mig))
		return 0;
	return !sim_contained() || (capability_node(gpu, mig, "gi_cap") && capability_node(gpu, mig, "ci_cap"));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	BEGIN(nvmlDeviceGetMigMode);
	if (!pending)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_word(&ref, "mig_mode", current);
	if (answer == NVML_SUCCESS && ref_word(&ref, "mig_mode_pending", pending) != NVML_SUCCESS)
		*pending = *current;
	return nvml_end(answer);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
	BEGIN(nvmlDeviceGetMigDeviceHandleByIndex);
	unsigned int slots = 0;
	if (!mig || ref.mig >= 0)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_word(&ref, "mig_max", &slots);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	if (index >= slots || index >= NVML_MAX_MIG)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (!nvml_mig_present(ref.gpu, (int)index))
		return nvml_end(NVML_ERROR_NOT_FOUND);
	*mig = nvml_handle(ref.gpu, (int)index);
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent)
{
	BEGIN(nvmlDeviceGetDeviceHandleFromMigDeviceHandle);
	if (!parent || ref.mig < 0)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	*parent = nvml_handle(ref.gpu, -1);
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
	BEGIN(nvmlDeviceIsMigDeviceHandle);
	if (!is_mig)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	*is_mig = ref.mig >= 0;
	return nvml_end(NVML_SUCCESS);
}

static nvmlReturn_t attributes(const struct ref *ref, nvmlDeviceAttributes_t *out)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (ref->mig < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(out, 0, sizeof *out);
	ref_word(ref, "sm_count", &out->multiprocessorCount);
	ref_word(ref, "copy_engines", &out->sharedCopyEngineCount);
	ref_word(ref, "decoders", &out->sharedDecoderCount);
	ref_word(ref, "encoders", &out->sharedEncoderCount);
	ref_word(ref, "gi_slices", &out->gpuInstanceSliceCount);
	ref_word(ref, "ci_slices", &out->computeInstanceSliceCount);
	ref_number(ref, "mem_total_bytes", &out->memorySizeMB);
	out->memorySizeMB >>= 20;
	return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
	BEGIN(nvmlDeviceGetAttributes);
	return nvml_end(attributes(&ref, out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
	BEGIN(nvmlDeviceGetAttributes_v2);
	return nvml_end(attributes(&ref, out));
}

/* The newest form of the fabric facts, from which the older ones are cut. */
static nvmlReturn_t fabric(const struct ref *ref, nvmlGpuFabricInfo_v3_t *out)
{
	unsigned int state, number = 0;
	nvmlReturn_t answer = ref_word(ref, "fabric_state", &state);
	if (answer != NVML_SUCCESS)
		return answer;
	memset(out, 0, sizeof *out);
	out->state = (unsigned char)state;
	ref_word(ref, "fabric_status", &number);
	out->status = (nvmlReturn_t)number;
	ref_word(ref, "fabric_clique", &out->cliqueId);
	ref_word(ref, "fabric_health_mask", &out->healthMask);
	number = 0;
	ref_word(ref, "fabric_health_summary", &number);
	out->healthSummary = (unsigned char)number;
	return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *out)
{
	BEGIN(nvmlDeviceGetGpuFabricInfo);
	nvmlGpuFabricInfo_v3_t newest;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = fabric(&ref, &newest);
	if (answer == NVML_SUCCESS)
		*out = (nvmlGpuFabricInfo_t){.status = newest.status, .cliqueId = newest.cliqueId, .state = newest.state};
	return nvml_end(answer);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *out)
{
	BEGIN(nvmlDeviceGetGpuFabricInfoV);
	nvmlGpuFabricInfo_v3_t newest;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	const unsigned int version = out->version;
	const int second = version == NVML_STRUCT_WORD(nvmlGpuFabricInfo_v2_t, 2);
	if (!second && version != NVML_STRUCT_WORD(nvmlGpuFabricInfo_v3_t, 3))
		return nvml_end(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	answer = fabric(&ref, &newest);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	newest.version = version;
	memcpy(out, &newest, second ? sizeof(nvmlGpuFabricInfo_v2_t) : sizeof newest);
	return nvml_end(NVML_SUCCESS);
}
