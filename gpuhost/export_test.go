// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// Look looks at the host whatever was found out a moment ago.
func (h *Host) Look() *Inventory { return h.renewInventory() }

// Sample takes a sample whatever was found out a moment ago.
func (h *Host) Sample() *Readings { return h.renewReadings() }
