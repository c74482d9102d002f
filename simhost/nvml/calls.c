/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Counting, delaying and failing of calls. */
#define _GNU_SOURCE
#include "state.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const sim_call_names[SIM_CALLS] = {
#define CALL(name, since) #name,
#include "calls.def"
#undef CALL
};

static pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;

/* The counter file, shared by all processes of the host: the number of changes
 * of the state, then one counter a function. NULL where it is out of reach. */
static _Atomic uint64_t *shared;
static int countable; /* the file may be written, not only read */

#define SHARED_SIZE ((SIM_CALLS + 1) * sizeof *shared)

static void map_shared(void)
{
	char path[1100];
	snprintf(path, sizeof path, "%s/calls", sim_state_dir());
	int fd = open(path, O_RDWR | O_CLOEXEC);
	countable = fd >= 0;
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	struct stat st;
	if (fstat(fd, &st) == 0 && (size_t)st.st_size >= SHARED_SIZE) {
		void *memory = mmap(NULL, SHARED_SIZE, PROT_READ | (countable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
		if (memory != MAP_FAILED)
			shared = memory;
	}
	close(fd);
}

/* Looks at the state anew if it changed. As long as the number of changes is the
 * same, no system call is needed; a caller that was woken by the change of a file
 * cannot rely on the number, which comes a moment later. Needs the lock. */
static void refresh(int woken)
{
	static uint64_t seen;
	if (shared && !sim_contained() && !woken && *shared == seen)
		return;
	if (sim_contained() && shared) { /* the host is gone, or there is a new one */
		munmap(shared, SHARED_SIZE);
		shared = NULL;
	}
	if (!shared)
		map_shared();
	seen = shared ? (uint64_t)*shared : 0;
	sim_state_refresh();
}

static void count_locked(int call)
{
	if (shared && countable)
		shared[1 + call]++;
}

void sim_count(int call)
{
	pthread_mutex_lock(&sim_lock);
	refresh(0);
	count_locked(call);
	pthread_mutex_unlock(&sim_lock);
}

/* The injected value for a call: that of the GPU, else that of all GPUs. */
static const char *injected(const char *kind, int call, int gpu)
{
	const char *value = NULL;
	if (!sim_state_get("faults"))
		return NULL;
	if (gpu >= 0)
		value = sim_text("%s.%s.%d", kind, sim_call_names[call], gpu);
	return value ? value : sim_text("%s.%s.all", kind, sim_call_names[call]);
}

long long sim_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Waits as long as a slowed call takes, in slices, so that a shortened delay
 * ends a waiting call too. Has the lock before and after, not while it waits. */
static void delay(int call, int gpu)
{
	const long long start = sim_now();
	for (;;) {
		const char *value = injected("slow", call, gpu);
		if (!value)
			return;
		long long left = start + strtoll(value, NULL, 10) * 1000000LL - sim_now();
		if (left <= 0)
			return;
		if (left > 50000000)
			left = 50000000;
		struct timespec slice = {0, left};
		pthread_mutex_unlock(&sim_lock);
		nanosleep(&slice, NULL);
		pthread_mutex_lock(&sim_lock);
		refresh(0);
	}
}

static enum sim_trouble driver_trouble(void)
{
	if (sim_contained())
		return access("/dev/nvidiactl", F_OK) == 0 ? SIM_OK : SIM_NOT_LOADED;
	if (!sim_state_get("driver_loaded"))
		return SIM_NOT_LOADED;
	const char *version = sim_state_get("driver_version");
	return version && strcmp(version, sim_library_version()) == 0 ? SIM_OK : SIM_MISMATCH;
}

enum sim_trouble sim_begin(int call, int gpu, int *code)
{
	const int again = call & SIM_AGAIN;
	call &= ~SIM_AGAIN;
	pthread_mutex_lock(&sim_lock);
	refresh(again);
	if (!again) {
		count_locked(call);
		delay(call, gpu);
	}
	const char *fault = injected("fail", call, gpu);
	if (fault) {
		*code = atoi(fault);
		return SIM_FAULT;
	}
	enum sim_trouble trouble = driver_trouble();
	if (trouble != SIM_OK)
		return trouble;
	if (gpu >= 0 && (!sim_gpu_present(gpu) || sim_text("gpu.%d.lost", gpu)))
		return SIM_LOST;
	return SIM_OK;
}

void sim_end(void) { pthread_mutex_unlock(&sim_lock); }

int sim_gpu_total(void)
{
	unsigned long long total = 0;
	sim_number(&total, "gpus");
	return total > SIM_MAX_GPUS ? SIM_MAX_GPUS : (int)total;
}

int sim_gpu_present(int gpu)
{
	if (!sim_contained())
		return !sim_text("gpu.%d.absent", gpu);
	unsigned long long minor;
	if (!sim_number(&minor, "gpu.%d.minor", gpu))
		return 1;
	char node[64];
	snprintf(node, sizeof node, "/dev/nvidia%llu", minor);
	return access(node, F_OK) == 0;
}
