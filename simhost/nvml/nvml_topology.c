/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Where a GPU is: its index, PCI address and the way to other GPUs. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

#define BEGIN(name) \
	struct ref ref; \
	nvmlReturn_t answer = nvml_begin_device(CALL_##name, device, &ref); \
	if (answer != NVML_SUCCESS) \
		return answer

SIM_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	BEGIN(nvmlDeviceGetIndex);
	if (!index)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (ref.mig >= 0) {
		*index = ref.mig;
		return nvml_end(NVML_SUCCESS);
	}
	for (unsigned int n = 0; nvml_visible(n) >= 0; n++)
		if (nvml_visible(n) == ref.gpu)
			*index = n;
	return nvml_end(NVML_SUCCESS);
}

/* Splits "0000:0A:00.0". */
static int parse_bus_id(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *device)
{
	return text && sscanf(text, "%x:%x:%x", domain, bus, device) == 3;
}

static nvmlReturn_t pci_info(const struct ref *ref, nvmlPciInfo_t *pci)
{
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof *pci);
	if (!parse_bus_id(ref_text(ref, "pci_bus_id"), &pci->domain, &pci->bus, &pci->device))
		return NVML_ERROR_NOT_SUPPORTED;
	ref_word(ref, "pci_device_id", &pci->pciDeviceId);
	ref_word(ref, "pci_subsystem_id", &pci->pciSubSystemId);
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF, pci->device & 0xFF);
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xFF, pci->device & 0xFF);
	return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	BEGIN(nvmlDeviceGetPciInfo_v3);
	return nvml_end(pci_info(&ref, pci));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *out)
{
	BEGIN(nvmlDeviceGetPciInfo_v2);
	nvmlPciInfo_t pci;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = pci_info(&ref, &pci);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	memset(out, 0, sizeof *out);
	memcpy(out, &pci, offsetof(nvmlPciInfo_v2_t, reserved));
	return nvml_end(NVML_SUCCESS);
}

/* The first version ends after the PCI device id. */
SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *out)
{
	BEGIN(nvmlDeviceGetPciInfo);
	nvmlPciInfo_t pci;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = pci_info(&ref, &pci);
	if (answer == NVML_SUCCESS)
		memcpy(out, &pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
	return nvml_end(answer);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	BEGIN(nvmlDeviceGetCudaComputeCapability);
	const char *text = ref_text(&ref, "compute_capability");
	if (!major || !minor)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (!text || sscanf(text, "%d.%d", major, minor) != 2)
		return nvml_end(NVML_ERROR_NOT_SUPPORTED);
	return nvml_end(NVML_SUCCESS);
}

/* The lower number comes first in the keys of a pair of GPUs. */
static const char *pair_text(const char *what, int a, int b)
{
	return sim_text("topology.%d.%d.%s", a < b ? a : b, a < b ? b : a, what);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, unsigned int *level)
{
	BEGIN(nvmlDeviceGetTopologyCommonAncestor);
	if (!other || !level)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	const char *text = pair_text("level", ref.gpu, other->gpu);
	if (!text || sscanf(text, "%u", level) != 1)
		return nvml_end(NVML_ERROR_NOT_SUPPORTED);
	return nvml_end(NVML_SUCCESS);
}

/* 0: peer access works; 5: not supported between these two. */
SIM_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, unsigned int kind, unsigned int *status)
{
	(void)kind;
	BEGIN(nvmlDeviceGetP2PStatus);
	if (!other || !status)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	*status = pair_text("peer", ref.gpu, other->gpu) ? 0 : 5;
	return nvml_end(NVML_SUCCESS);
}

static nvmlReturn_t link_word(const struct ref *ref, unsigned int link, const char *what, unsigned int *out)
{
	unsigned int links = 0;
	nvmlReturn_t answer = ref_word(ref, "nvlinks", &links);
	if (answer != NVML_SUCCESS)
		return answer;
	if (link >= links || !out)
		return NVML_ERROR_INVALID_ARGUMENT;
	char key[48];
	snprintf(key, sizeof key, "nvlink.%u.%s", link, what);
	if (ref_word(ref, key, out) == NVML_SUCCESS)
		return NVML_SUCCESS;
	snprintf(key, sizeof key, "nvlink_%s", what);
	return ref_word(ref, key, out);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active)
{
	BEGIN(nvmlDeviceGetNvLinkState);
	return nvml_end(link_word(&ref, link, "state", active));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
	BEGIN(nvmlDeviceGetNvLinkVersion);
	return nvml_end(link_word(&ref, link, "version", version));
}

static nvmlReturn_t remote_pci(const struct ref *ref, unsigned int link, nvmlPciInfo_t *pci)
{
	char key[48];
	snprintf(key, sizeof key, "nvlink.%u.remote", link);
	const char *remote = ref_text(ref, key);
	if (!remote)
		remote = ref_text(ref, "nvlink_remote");
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof *pci);
	if (!parse_bus_id(remote, &pci->domain, &pci->bus, &pci->device))
		return NVML_ERROR_NOT_SUPPORTED;
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF, pci->device & 0xFF);
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xFF, pci->device & 0xFF);
	return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	BEGIN(nvmlDeviceGetNvLinkRemotePciInfo_v2);
	return nvml_end(remote_pci(&ref, link, pci));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, void *out)
{
	BEGIN(nvmlDeviceGetNvLinkRemotePciInfo);
	nvmlPciInfo_t pci;
	answer = remote_pci(&ref, link, out ? &pci : NULL);
	if (answer == NVML_SUCCESS)
		memcpy(out, &pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
	return nvml_end(answer);
}
