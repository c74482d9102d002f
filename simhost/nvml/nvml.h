/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* What the files of libnvidia-ml share. */
#ifndef SIMHOST_NVML_H
#define SIMHOST_NVML_H

#include "abi.h"
#include "sim.h"

#define NVML_MAX_MIG 8

/* A handle: a GPU (mig < 0) or one of its MIG devices. */
struct sim_device {
	int gpu, mig;
};

/* The device that a call is about, and the start of its keys in the state. */
struct ref {
	int gpu, mig;
	char prefix[32];
};

/* Start a call of the library, or of one device. On NVML_SUCCESS the state is
 * locked and the call ends with nvml_end; any other answer is final. */
nvmlReturn_t nvml_begin(int call);
nvmlReturn_t nvml_begin_device(int call, nvmlDevice_t device, struct ref *ref);
nvmlReturn_t nvml_end(nvmlReturn_t answer);

/* Need the lock. A reading that the device does not tell is NOT_SUPPORTED. */
const char *ref_text(const struct ref *ref, const char *key);
nvmlReturn_t ref_number(const struct ref *ref, const char *key, unsigned long long *out);
nvmlReturn_t ref_word(const struct ref *ref, const char *key, unsigned int *out);
nvmlReturn_t copy_text(char *out, unsigned int room, const char *text);

/* Handles. nvml_visible gives the number of the n-th GPU that the driver listed
 * when the library was started, or -1. */
nvmlDevice_t nvml_handle(int gpu, int mig);
int nvml_visible(unsigned int n);
int nvml_mig_present(int gpu, int mig);

/* Whether the library is started; wakes waiting event sets when it stops. */
int nvml_started(void);
int nvml_stop_fd(void);

#endif
