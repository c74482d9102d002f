/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Return codes as words. */
#include "nvml.h"

struct word {
	int code;
	const char *text;
};

/* The texts are the ones that callers of the real library know and match. */
static const struct word words[] = {
	{0, "Success"},
	{1, "Uninitialized"},
	{2, "Invalid Argument"},
	{3, "Not Supported"},
	{4, "Insufficient Permissions"},
	{5, "Already Initialized"},
	{6, "Not Found"},
	{7, "Insufficient Size"},
	{8, "Insufficient External Power"},
	{9, "Driver Not Loaded"},
	{10, "Timeout"},
	{11, "Interrupt Request Issue"},
	{12, "NVML Shared Library Not Found"},
	{13, "Function Not Found"},
	{14, "Corrupted infoROM"},
	{15, "GPU is lost"},
	{16, "GPU requires reset"},
	{17, "GPU access blocked by the operating system"},
	{18, "Driver/library version mismatch"},
	{19, "In use by another client"},
	{20, "Insufficient Memory"},
	{21, "No data"},
	{22, "Requested vGPU operation is not available on target device, because ECC is enabled"},
	{23, "Insufficient Resources"},
	{24, "Requested frequency not supported"},
	{25, "Argument version mismatch"},
	{26, "Deprecated"},
	{27, "Not Ready"},
	{28, "GPU not found"},
	{29, "Invalid state"},
};

SIM_EXPORT const char *nvmlErrorString(nvmlReturn_t code)
{
	sim_count(CALL_nvmlErrorString);
	for (unsigned int i = 0; i < sizeof words / sizeof *words; i++)
		if (words[i].code == (int)code)
			return words[i].text;
	return "Unknown Error";
}
