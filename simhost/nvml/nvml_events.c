/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Events. The host keeps a log of them, "events" in the state directory, one
 * line each: "gpu type data gi ci". An event set reads on from where the log
 * ended when its first device was registered. */
#define _GNU_SOURCE
#include "nvml.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SETS 256

struct sim_event_set {
	int used;
	off_t read;                              /* how far the log was read */
	unsigned long long types[SIM_MAX_GPUS];  /* event types wished of each GPU */
	uint64_t lost;                           /* GPUs whose loss was told */
};

/* The lock of the state guards the table. */
static struct sim_event_set sets[MAX_SETS];

static void log_path(char *path, size_t room) { snprintf(path, room, "%s/events", sim_state_dir()); }

static off_t log_size(void)
{
	char path[1100];
	struct stat st;
	log_path(path, sizeof path);
	return stat(path, &st) == 0 ? st.st_size : 0;
}

static int valid(nvmlEventSet_t set) { return set >= sets && set < sets + MAX_SETS && set->used; }

SIM_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
	nvmlReturn_t answer = nvml_begin(CALL_nvmlEventSetCreate);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!out)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	for (int i = 0; i < MAX_SETS; i++) {
		if (sets[i].used)
			continue;
		sets[i] = (struct sim_event_set){.used = 1, .read = log_size()};
		*out = &sets[i];
		return nvml_end(NVML_SUCCESS);
	}
	return nvml_end(NVML_ERROR_UNKNOWN);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	int code = 0;
	if (sim_begin(CALL_nvmlEventSetFree, -1, &code) == SIM_FAULT)
		return nvml_end(code);
	if (!valid(set))
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	set->used = 0;
	return nvml_end(NVML_SUCCESS);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
	struct ref ref;
	nvmlReturn_t answer = nvml_begin_device(CALL_nvmlDeviceRegisterEvents, device, &ref);
	if (answer != NVML_SUCCESS)
		return answer;
	unsigned long long supported;
	if (!valid(set))
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	answer = ref_number(&ref, "event_types", &supported);
	if (answer != NVML_SUCCESS)
		return nvml_end(answer);
	if (types & ~supported)
		return nvml_end(NVML_ERROR_NOT_SUPPORTED);
	set->types[ref.gpu] |= types;
	return nvml_end(NVML_SUCCESS);
}

/* Takes the next line of the log for this set; 0 when there is none. */
static int next_event(nvmlEventSet_t set, nvmlEventData_t *event)
{
	char path[1100], line[160];
	log_path(path, sizeof path);
	FILE *log = fopen(path, "re");
	if (!log)
		return 0;
	int found = 0;
	if (fseeko(log, set->read, SEEK_SET) != 0)
		line[0] = 0;
	while (!found && fgets(line, sizeof line, log) && strchr(line, '\n')) {
		set->read = ftello(log);
		int gpu;
		unsigned long long type, data;
		unsigned int gi, ci;
		if (sscanf(line, "%d %llu %llu %u %u", &gpu, &type, &data, &gi, &ci) != 5)
			continue;
		if (gpu < 0 || gpu >= SIM_MAX_GPUS || !(set->types[gpu] & type))
			continue;
		*event = (nvmlEventData_t){nvml_handle(gpu, -1), type, data, gi, ci};
		found = 1;
	}
	fclose(log);
	return found;
}

/* Whether a registered GPU was lost since the set told so last. */
static int newly_lost(nvmlEventSet_t set)
{
	int news = 0;
	for (int gpu = 0; gpu < SIM_MAX_GPUS; gpu++) {
		const uint64_t bit = 1ULL << gpu;
		if (!set->types[gpu])
			continue;
		if (!sim_text("gpu.%d.lost", gpu))
			set->lost &= ~bit;
		else if (!(set->lost & bit)) {
			set->lost |= bit;
			news = 1;
		}
	}
	return news;
}

/* One look at log and state; NVML_ERROR_TIMEOUT says that nothing happened. */
static nvmlReturn_t look(int call, nvmlEventSet_t set, nvmlEventData_t *event, int first)
{
	nvmlReturn_t answer = nvml_begin(first ? call : call | SIM_AGAIN);
	if (answer != NVML_SUCCESS)
		return answer;
	if (!valid(set) || !event)
		return nvml_end(NVML_ERROR_INVALID_ARGUMENT);
	if (next_event(set, event))
		return nvml_end(NVML_SUCCESS);
	return nvml_end(newly_lost(set) ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT);
}

/* Sleeps until something in the state directory changes, the library stops, or
 * the nanoseconds left are over. Without a watch it looks every 20 ms. */
static void sleep_for_news(int watch, long long left)
{
	left = (left + 999999) / 1000000; /* upwards: poll must not end before the time */
	struct pollfd polled[2] = {{watch, POLLIN, 0}, {nvml_stop_fd(), POLLIN, 0}};
	if (watch < 0 && left > 20 && !sim_contained())
		left = 20;
	if (poll(polled, 2, left > 60000 ? 60000 : (int)left) > 0 && polled[0].revents) {
		char buffer[4096];
		while (read(watch, buffer, sizeof buffer) > 0)
			;
	}
}

static nvmlReturn_t wait_event(int call, nvmlEventSet_t set, nvmlEventData_t *event, unsigned int timeout)
{
	const long long end = sim_now() + timeout * 1000000LL;
	int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch >= 0 && inotify_add_watch(watch, sim_state_dir(), IN_MODIFY | IN_MOVED_TO | IN_DELETE_SELF) < 0) {
		close(watch);
		watch = -1;
	}
	nvmlReturn_t answer = look(call, set, event, 1);
	for (long long left; answer == NVML_ERROR_TIMEOUT && (left = end - sim_now()) > 0;) {
		sleep_for_news(watch, left);
		answer = look(call, set, event, 0);
	}
	if (watch >= 0)
		close(watch);
	return answer;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned int timeout)
{
	return wait_event(CALL_nvmlEventSetWait_v2, set, event, timeout);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *out, unsigned int timeout)
{
	nvmlEventData_t event;
	nvmlReturn_t answer = wait_event(CALL_nvmlEventSetWait, set, out ? &event : NULL, timeout);
	if (answer == NVML_SUCCESS)
		*out = (nvmlEventData_v1_t){event.device, event.eventType, event.eventData};
	return answer;
}
