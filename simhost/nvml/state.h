/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* Inside of the state; only calls.c and gpus.c look at it. */
#ifndef SIMHOST_STATE_H
#define SIMHOST_STATE_H

#include "sim.h"

/* Room for the inventory that travels inside the library. */
#define SIM_INVENTORY_MAX (384 * 1024)

/* Reads the state again if it changed. Needs the lock. */
void sim_state_refresh(void);
/* The value of a whole key, NULL without one. Needs the lock. */
const char *sim_state_get(const char *key);

#endif
