// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/nomad/plugins/device"
)

// The environment of MPS, the daemon that lets the kernels of several processes
// run on one GPU at the same time.
const (
	mpsPipeVariable    = "CUDA_MPS_PIPE_DIRECTORY"
	mpsThreadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	mpsMemoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	deviceOrder        = "CUDA_DEVICE_ORDER"
	pciOrder           = "PCI_BUS_ID"

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
	cause := ""
	switch err := mpsListens(control); {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		cause = fmt.Sprintf("no %q", control)
	case errors.Is(err, syscall.ECONNREFUSED):
		cause = fmt.Sprintf("nobody listens on %q", control)
	default:
		cause = err.Error()
	}
	return "MPS daemon not running: " + cause + "; start nvidia-cuda-mps-control -d"
}

// mpsListens says why nobody listens on the socket of the control daemon; nil if
// somebody does. The file alone tells nothing: a daemon that is killed leaves it
// behind. CUDA connects with SOCK_SEQPACKET, and the daemon logs whoever does; so
// this tries datagrams, which the kernel refuses as the wrong type of a socket
// that is in use, at once and without a word to the daemon.
func mpsListens(control string) error {
	connection, err := net.Dial("unixgram", control)
	if errors.Is(err, syscall.EPROTOTYPE) {
		return nil
	}
	if err != nil {
		return err
	}
	return connection.Close()
}

// addMPS makes a task a client of the MPS daemon, with as much of each GPU as its
// shares are worth. The daemon's log directory stays its own: clients write nothing
// there.
func (r *reservation) addMPS(c *device.ContainerReservation) {
	c.Mounts = append(c.Mounts, &device.Mount{HostPath: mpsPipes(), TaskPath: mpsPipeDirectory})
	c.Envs[mpsPipeVariable] = mpsPipeDirectory
	least := r.settings.replicas
	var limits []string
	// CUDA numbers the GPUs of a task in the order of the PCI bus, if told so.
	byBus := slices.SortedFunc(slices.Values(r.held), func(a, b *instance) int { return cmp.Compare(a.gpu.Index, b.gpu.Index) })
	for n, i := range byBus {
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
	if len(limits) > 1 {
		c.Envs[deviceOrder] = pciOrder
	}
}
