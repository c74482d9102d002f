/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* What the simulated libraries share: the state of the host, the call counters
 * and the faults. Only one lock, sim_lock, guards everything that changes. */
#ifndef SIMHOST_SIM_H
#define SIMHOST_SIM_H

#include <stddef.h>

#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_MAX_GPUS 64

/* One number for each exported function, in the order of calls.def. */
enum sim_call {
#define CALL(name, since) CALL_##name,
#include "calls.def"
#undef CALL
	SIM_CALLS
};
extern const char *const sim_call_names[SIM_CALLS];

/* Why a call cannot do its work; each library turns it into its own code. */
enum sim_trouble {
	SIM_OK,
	SIM_FAULT,      /* an injected fault; the code is in *code */
	SIM_NOT_LOADED, /* no kernel module */
	SIM_MISMATCH,   /* the kernel module has another version than this library */
	SIM_LOST        /* the GPU fell off the bus or was removed */
};

/* Marks a call that goes on: it is neither counted nor delayed again. */
#define SIM_AGAIN 0x10000

/* Starts one call: counts it, delays it, and looks for faults of the host and,
 * if gpu >= 0, of that GPU. Takes the lock in every case; sim_end gives it back. */
enum sim_trouble sim_begin(int call, int gpu, int *code);
void sim_end(void);

/* Nanoseconds of the monotonic clock. */
long long sim_now(void);

/* The rest needs the lock. */

/* The value of a key of the host's state; NULL when the host does not tell it. */
const char *sim_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The number under a key; 0 (and *out unchanged) when there is none. */
int sim_number(unsigned long long *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* How many GPUs the profile has, visible or not. */
int sim_gpu_total(void);
/* Whether the driver lists the GPU now. */
int sim_gpu_present(int gpu);
/* Whether the process runs where only the driver volume is, as in a container. */
int sim_contained(void);
/* The directory of the state, and the version of this library's files. */
const char *sim_state_dir(void);
const char *sim_library_version(void);

/* Counts a call that needs no state. */
void sim_count(int call);

#endif
