/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Processes on a GPU. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

/* One process as its line in the state tells it:
 * "pid used kind gi ci name", kind C (computes) or G (draws), "-" for not told.
 * The name is the rest of the line and empty when the process is gone. */
struct process {
	unsigned int pid;
	unsigned long long used;
	char kind;
	unsigned int gi, ci;
	const char *name;
};

static int parse_process(const char *line, struct process *p)
{
	char used[24], gi[12], ci[12];
	int name = 0;
	if (!line || sscanf(line, "%u %23s %c %11s %11s%n", &p->pid, used, &p->kind, gi, ci, &name) != 5)
		return 0;
	if (*used == '-' || sscanf(used, "%llu", &p->used) != 1)
		p->used = NVML_VALUE_NOT_AVAILABLE;
	if (*gi == '-' || sscanf(gi, "%u", &p->gi) != 1)
		p->gi = NVML_INSTANCE_NONE;
	if (*ci == '-' || sscanf(ci, "%u", &p->ci) != 1)
		p->ci = NVML_INSTANCE_NONE;
	p->name = line[name] == ' ' ? line + name + 1 : "";
	return 1;
}

/* Puts one process into a caller's array, whose elements depend on the version. */
static void store(void *array, unsigned int index, size_t element, const struct process *p)
{
	const nvmlProcessInfo_t info = {p->pid, p->used, p->gi, p->ci};
	memcpy((char *)array + index * element, &info, element);
}

static nvmlReturn_t list(int call, nvmlDevice_t device, char kind, unsigned int *count, void *array, size_t element)
{
	struct ref ref;
	nvmlReturn_t answer = nvml_begin_device(call, device, &ref);
	if (answer != NVML_SUCCESS)
		return answer;
	unsigned int all = 0, matching = 0;
	if (!count)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_word(&ref, "processes", &all);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	for (unsigned int i = 0; i < all; i++) {
		struct process p;
		if (!parse_process(sim_text("%s.process.%u", ref.prefix, i), &p) || p.kind != kind)
			continue;
		if (matching < *count && array)
			store(array, matching, element, &p);
		matching++;
	}
	answer = matching > *count || (matching && !array) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
	*count = matching;
	return nvml_end(answer);
}

#define LIST(name, kind, element) \
	SIM_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, void *array) \
	{ \
		return list(CALL_##name, device, kind, count, array, sizeof(element)); \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, 'C', nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, 'C', nvmlProcessInfo_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, 'C', nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses, 'G', nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', nvmlProcessInfo_t)

/* The name of a process on any GPU, cut to the room that the caller has. */
SIM_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int room)
{
	nvmlReturn_t answer = nvml_begin(CALL_nvmlSystemGetProcessName);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!name || !room)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	for (int gpu = 0; gpu < sim_gpu_total(); gpu++) {
		unsigned long long count = 0;
		sim_number(&count, "gpu.%d.processes", gpu);
		for (unsigned int i = 0; i < count; i++) {
			struct process p;
			if (!parse_process(sim_text("gpu.%d.process.%u", gpu, i), &p) || p.pid != pid || !*p.name)
				continue;
			snprintf(name, room, "%s", p.name);
			return nvml_end(NVML_SUCCESS);
		}
	}
	return nvml_end(NVML_ERROR_NOT_FOUND);
}
