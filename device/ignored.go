// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"fmt"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// matchIgnored finds what the ids of ignored_gpu_ids mean on this host: the UUIDs
// not to offer, MIG devices of an ignored GPU included. A shortened id that fits
// several GPUs hides them all and is an error too; ids that fit nothing are not
// in the result.
func matchIgnored(ids []string, inventory *gpuhost.Inventory) (ignored map[string]string, ambiguous []error) {
	ignored = make(map[string]string)
	for i, id := range ids {
		var fits []string
		for g := range inventory.GPUs {
			gpu := &inventory.GPUs[g]
			if means(id, gpu.UUID) {
				fits = append(fits, gpu.UUID)
			}
			for m := range gpu.MIGDevices {
				if uuid := gpu.MIGDevices[m].UUID; means(id, uuid) {
					fits = append(fits, uuid)
				}
			}
		}
		for _, uuid := range fits {
			ignored[uuid] = id
		}
		if len(fits) > 1 {
			ambiguous = append(ambiguous, fmt.Errorf("plugin config: ignored_gpu_ids[%d] %q fits %s; give more of the one that is meant",
				i, id, strings.Join(fits, ", ")))
		}
	}
	addIgnoredMIG(ignored, inventory)
	return ignored, ambiguous
}

// addIgnoredMIG hides the MIG devices of hidden GPUs.
func addIgnoredMIG(ignored map[string]string, inventory *gpuhost.Inventory) {
	for g := range inventory.GPUs {
		id, hidden := ignored[inventory.GPUs[g].UUID]
		if !hidden {
			continue
		}
		for m := range inventory.GPUs[g].MIGDevices {
			ignored[inventory.GPUs[g].MIGDevices[m].UUID] = id
		}
	}
}

// means says whether an option's id is a UUID or the beginning of one.
func means(id, uuid string) bool {
	return len(id) <= len(uuid) && strings.EqualFold(id, uuid[:len(id)]) && longEnough(id)
}

// unmatched are the ids that fit nothing on this host.
func unmatched(ids []string, inventory *gpuhost.Inventory) []string {
	var none []string
	for _, id := range ids {
		if found, _ := matchIgnored([]string{id}, inventory); len(found) == 0 {
			none = append(none, id)
		}
	}
	return none
}

// allUUIDs are the ids that ignored_gpu_ids could name.
func allUUIDs(inventory *gpuhost.Inventory) []string {
	var uuids []string
	for g := range inventory.GPUs {
		uuids = append(uuids, inventory.GPUs[g].UUID)
		for m := range inventory.GPUs[g].MIGDevices {
			uuids = append(uuids, inventory.GPUs[g].MIGDevices[m].UUID)
		}
	}
	return uuids
}
