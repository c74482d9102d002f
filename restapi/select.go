// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"strconv"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// InvalidDeviceError is an id that names no GPU, or more than one.
type InvalidDeviceError struct{ ID string }

// Error gives v1's text.
func (e *InvalidDeviceError) Error() string { return "invalid device: " + e.ID }

// InvalidVolumeError is a volume name that does not exist.
type InvalidVolumeError struct{ Name string }

// Error gives v1's text.
func (e *InvalidVolumeError) Error() string { return "invalid volume: " + e.Name }

// SelectGPUs picks GPUs by id: a decimal index or a prefix of a UUID that fits
// exactly one (nvidia-docker-v1 DC-5, DC-7, D2). The result is in index order,
// each GPU once. The first bad id is an *InvalidDeviceError.
func SelectGPUs(gpus []gpuhost.GPU, ids []string) ([]gpuhost.GPU, error) {
	chosen := make([]bool, len(gpus))
	for _, id := range ids {
		n := findGPU(gpus, id)
		if n < 0 {
			return nil, &InvalidDeviceError{ID: id}
		}
		chosen[n] = true
	}
	var out []gpuhost.GPU
	for n := range gpus {
		if chosen[n] {
			out = append(out, gpus[n])
		}
	}
	return out, nil
}

// findGPU gives the position of the one GPU that id names, or -1.
func findGPU(gpus []gpuhost.GPU, id string) int {
	if strings.HasPrefix(id, "GPU-") {
		return findUUID(gpus, id)
	}
	index, err := strconv.ParseUint(id, 10, 31)
	if err != nil {
		return -1
	}
	for n := range gpus {
		if gpus[n].Index == int(index) {
			return n
		}
	}
	return -1
}

func findUUID(gpus []gpuhost.GPU, prefix string) int {
	found := -1
	for n := range gpus {
		if !strings.HasPrefix(gpus[n].UUID, prefix) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = n
	}
	return found
}
