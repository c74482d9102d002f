/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* A small nvidia-smi: lists GPUs (-L), answers --query-gpu, and prints a table.
 * It asks libnvidia-ml.so.1 that lies beside it, else the one that the dynamic
 * loader finds. */
#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

static void *load_library(void)
{
	static const char *const places[] = {"../lib64", "../lib/x86_64-linux-gnu", "../lib"};
	char own[PATH_MAX] = "", path[PATH_MAX + 64];
	if (readlink("/proc/self/exe", own, sizeof own - 1) > 0) {
		const char *dir = dirname(own);
		for (unsigned int i = 0; i < sizeof places / sizeof *places; i++) {
			snprintf(path, sizeof path, "%s/%s/libnvidia-ml.so.1", dir, places[i]);
			void *found = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW) : NULL;
			if (found)
				return found;
		}
	}
	return dlopen("libnvidia-ml.so.1", RTLD_NOW);
}

/* Calls a function of the library; one that it lacks is FUNCTION_NOT_FOUND. */
#define ASK(name, types, ...) \
	({ \
		nvmlReturn_t(*f) types = (nvmlReturn_t(*) types)dlsym(library, #name); \
		f ? f(__VA_ARGS__) : (nvmlReturn_t)13; \
	})

static const char *error_text(nvmlReturn_t code)
{
	const char *(*f)(nvmlReturn_t) = (const char *(*)(nvmlReturn_t))dlsym(library, "nvmlErrorString");
	return f ? f(code) : "Unknown Error";
}

static nvmlReturn_t text(nvmlDevice_t device, const char *function, char *out, unsigned int room)
{
	nvmlReturn_t (*f)(nvmlDevice_t, char *, unsigned int) = (nvmlReturn_t(*)(nvmlDevice_t, char *, unsigned int))dlsym(library, function);
	return f ? f(device, out, room) : (nvmlReturn_t)13;
}

static nvmlReturn_t word(nvmlDevice_t device, const char *function, unsigned int *out)
{
	nvmlReturn_t (*f)(nvmlDevice_t, unsigned int *) = (nvmlReturn_t(*)(nvmlDevice_t, unsigned int *))dlsym(library, function);
	return f ? f(device, out) : (nvmlReturn_t)13;
}

static int fail(nvmlReturn_t code)
{
	if (code == NVML_ERROR_DRIVER_NOT_LOADED)
		puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.");
	else
		printf("Failed to initialize NVML: %s\n", error_text(code));
	return code;
}

static unsigned int count_gpus(void)
{
	unsigned int count = 0;
	ASK(nvmlDeviceGetCount_v2, (unsigned int *), &count);
	return count;
}

static void list_mig(nvmlDevice_t device)
{
	unsigned int slots = 0;
	if (word(device, "nvmlDeviceGetMaxMigDeviceCount", &slots) != NVML_SUCCESS)
		return;
	for (unsigned int slot = 0, shown = 0; slot < slots; slot++) {
		nvmlDevice_t mig;
		char name[128] = "", uuid[128] = "";
		if (ASK(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t, unsigned int, nvmlDevice_t *), device, slot, &mig) != NVML_SUCCESS)
			continue;
		text(mig, "nvmlDeviceGetName", name, sizeof name);
		text(mig, "nvmlDeviceGetUUID", uuid, sizeof uuid);
		const char *profile = strstr(name, "MIG ");
		printf("  %-16sDevice %2u: (UUID: %s)\n", profile ? profile : "MIG", shown++, uuid);
	}
}

static int list(void)
{
	for (unsigned int n = 0; n < count_gpus(); n++) {
		nvmlDevice_t device;
		char name[128] = "", uuid[128] = "";
		nvmlReturn_t answer = ASK(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *), n, &device);
		if (answer == NVML_SUCCESS)
			answer = text(device, "nvmlDeviceGetName", name, sizeof name);
		if (answer == NVML_SUCCESS)
			answer = text(device, "nvmlDeviceGetUUID", uuid, sizeof uuid);
		if (answer != NVML_SUCCESS) {
			printf("Unable to determine the device handle for gpu %u: %s\n", n, error_text(answer));
			continue;
		}
		printf("GPU %u: %s (UUID: %s)\n", n, name, uuid);
		list_mig(device);
	}
	return 0;
}

/* One field of --query-gpu as text; 0 when it is not known to this program. */
static int field(const char *name, unsigned int n, nvmlDevice_t device, int units, char *out, size_t room)
{
	unsigned int number = 0;
	nvmlReturn_t answer = NVML_SUCCESS;
	const char *unit = "";
	nvmlPciInfo_t pci = {0};
	nvmlMemory_t memory = {0};
	nvmlUtilization_t busy = {0};
	if (strcmp(name, "index") == 0) {
		number = n;
	} else if (strcmp(name, "minor_number") == 0) {
		answer = word(device, "nvmlDeviceGetMinorNumber", &number);
	} else if (strcmp(name, "name") == 0 || strcmp(name, "gpu_name") == 0) {
		answer = text(device, "nvmlDeviceGetName", out, room);
		goto told;
	} else if (strcmp(name, "uuid") == 0 || strcmp(name, "gpu_uuid") == 0) {
		answer = text(device, "nvmlDeviceGetUUID", out, room);
		goto told;
	} else if (strcmp(name, "driver_version") == 0) {
		answer = ASK(nvmlSystemGetDriverVersion, (char *, unsigned int), out, (unsigned int)room);
		goto told;
	} else if (strcmp(name, "pci.bus_id") == 0 || strcmp(name, "gpu_bus_id") == 0) {
		answer = ASK(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t, nvmlPciInfo_t *), device, &pci);
		if (answer == 13)
			answer = ASK(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t, nvmlPciInfo_t *), device, &pci);
		snprintf(out, room, "%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
		goto told;
	} else if (strncmp(name, "memory.", 7) == 0) {
		answer = ASK(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *), device, &memory);
		number = (unsigned int)((strcmp(name, "memory.total") == 0 ? memory.total : strcmp(name, "memory.free") == 0 ? memory.free : memory.used) >> 20);
		unit = " MiB";
	} else if (strcmp(name, "utilization.gpu") == 0 || strcmp(name, "utilization.memory") == 0) {
		answer = ASK(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *), device, &busy);
		number = name[12] == 'g' ? busy.gpu : busy.memory;
		unit = " %";
	} else if (strcmp(name, "temperature.gpu") == 0) {
		answer = ASK(nvmlDeviceGetTemperature, (nvmlDevice_t, unsigned int, unsigned int *), device, 0, &number);
	} else if (strcmp(name, "power.draw") == 0 || strcmp(name, "power.limit") == 0) {
		answer = word(device, name[6] == 'd' ? "nvmlDeviceGetPowerUsage" : "nvmlDeviceGetPowerManagementLimit", &number);
		snprintf(out, room, "%u.%02u%s", number / 1000, number % 1000 / 10, units ? " W" : "");
		goto told;
	} else {
		return 0;
	}
	snprintf(out, room, "%u%s", number, units ? unit : "");
told:
	if (answer != NVML_SUCCESS)
		snprintf(out, room, answer == NVML_ERROR_NOT_SUPPORTED || answer == 13 ? "[N/A]" : "[%s]", error_text(answer));
	return 1;
}

static int query(const char *fields, const char *format)
{
	const int units = !strstr(format, "nounits");
	if (!strstr(format, "noheader")) {
		for (const char *p = fields; *p; p++)
			fputs(*p == ',' ? ", " : (char[]){*p, 0}, stdout);
		putchar('\n');
	}
	for (unsigned int n = 0; n < count_gpus(); n++) {
		nvmlDevice_t device;
		char *names = strdup(fields), *rest = names, *name;
		const char *comma = "";
		if (ASK(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *), n, &device) != NVML_SUCCESS)
			device = NULL;
		while ((name = strsep(&rest, ","))) {
			char value[160];
			if (!field(name, n, device, units, value, sizeof value)) {
				printf("Field \"%s\" is not a valid field to query.\n", name);
				return 2;
			}
			printf("%s%s", comma, value);
			comma = ", ";
		}
		putchar('\n');
		free(names);
	}
	return 0;
}

static int table(void)
{
	static const char rule[] = "+-----------------------------------------------------------------------------+";
	char version[80] = "";
	ASK(nvmlSystemGetDriverVersion, (char *, unsigned int), version, sizeof version);
	printf("%s\n| NVIDIA-SMI %-20s Driver Version: %-27s |\n%s\n", rule, version, version, rule);
	for (unsigned int n = 0; n < count_gpus(); n++) {
		nvmlDevice_t device;
		char name[160], bus[160], memory[160], all[160], busy[160], warm[160], power[160];
		if (ASK(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *), n, &device) != NVML_SUCCESS)
			device = NULL;
		field("name", n, device, 1, name, sizeof name);
		field("pci.bus_id", n, device, 1, bus, sizeof bus);
		field("memory.used", n, device, 1, memory, sizeof memory);
		field("memory.total", n, device, 1, all, sizeof all);
		field("utilization.gpu", n, device, 1, busy, sizeof busy);
		field("temperature.gpu", n, device, 1, warm, sizeof warm);
		field("power.draw", n, device, 1, power, sizeof power);
		printf("| %2u  %-52.52s %-17.17s |\n", n, name, bus);
		printf("|     %8.8s C %12.12s %15.15s / %-15.15s %8.8s     |\n", warm, power, memory, all, busy);
	}
	printf("%s\n", rule);
	return 0;
}

int main(int argc, char **argv)
{
	const char *fields = NULL, *format = "";
	int lists = 0;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-L") == 0 || strcmp(argv[i], "--list-gpus") == 0) {
			lists = 1;
		} else if (strncmp(argv[i], "--query-gpu=", 12) == 0) {
			fields = argv[i] + 12;
		} else if (strncmp(argv[i], "--format=", 9) == 0) {
			format = argv[i] + 9;
		} else {
			fprintf(stderr, "Invalid option: %s; use -L, or --query-gpu=FIELDS --format=csv[,noheader][,nounits]\n", argv[i]);
			return 1;
		}
	}
	library = load_library();
	if (!library) {
		fputs("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n", stderr);
		return 12;
	}
	nvmlReturn_t answer = ASK(nvmlInit_v2, (void));
	if (answer != NVML_SUCCESS)
		return fail(answer);
	if (fields)
		return query(fields, format);
	return lists ? list() : table();
}
