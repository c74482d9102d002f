// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/plugins/device"
)

// The environment of MPS, the daemon that lets the kernels of several processes
// run on one GPU at the same time.
const (
	mpsPipeVariable    = "CUDA_MPS_PIPE_DIRECTORY"
	mpsThreadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	mpsMemoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"

	// mpsPipeDirectory is the daemon's default.
	mpsPipeDirectory = "/tmp/nvidia-mps"
)

// mpsPipes is where the MPS control daemon of this host has its pipes: as the
// environment of the agent says, which is that of the daemon.
func mpsPipes() string {
	if dir := os.Getenv(mpsPipeVariable); dir != "" {
		return dir
	}
	return mpsPipeDirectory
}

// mpsProblem says why MPS clients cannot be served now; empty when they can or
// MPS is not wanted (cases DEV-30).
func mpsProblem(s *settings) string {
	if s.strategy != sharingMPS {
		return ""
	}
	control := filepath.Join(mpsPipes(), "control")
	if _, err := os.Stat(control); err != nil {
		return fmt.Sprintf("MPS daemon not running: no %q; start nvidia-cuda-mps-control -d", control)
	}
	return ""
}

// addMPS makes a task a client of the MPS daemon, with as much of each GPU as its
// shares are worth.
func (r *reservation) addMPS(c *device.ContainerReservation) {
	c.Mounts = append(c.Mounts, &device.Mount{HostPath: mpsPipes(), TaskPath: mpsPipeDirectory})
	c.Envs[mpsPipeVariable] = mpsPipeDirectory
	least := r.settings.replicas
	var limits []string
	for n, i := range r.held {
		shares := r.shares[i.uuid]
		least = min(least, shares)
		if i.gpu.TotalBytes != nil {
			mib := *i.gpu.TotalBytes >> 20 * uint64(shares) / uint64(r.settings.replicas)
			limits = append(limits, fmt.Sprintf("%d=%dM", n, mib))
		}
	}
	c.Envs[mpsThreadsVariable] = strconv.Itoa(max(1, 100*least/r.settings.replicas))
	if len(limits) > 0 {
		c.Envs[mpsMemoryVariable] = strings.Join(limits, ",")
	}
}
