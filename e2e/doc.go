// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package e2e tells the product's stories on a real Nomad agent and a real
// Docker Engine, with a simulated GPU host under them.
//
// Each story starts what it needs (see the harness package), asserts through
// Nomad's API and Docker's inspect, and leaves nothing behind: that itself is
// asserted. Run them with "make test-e2e"; they need root.
package e2e
