// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package simhost builds and controls simulated GPU hosts.
//
// A simulated host is a directory, the driver root, with what NVIDIA's driver
// leaves on a machine: libnvidia-ml.so.1 and libcuda.so.1, which are real
// libraries with the ABI of NVIDIA's (C sources in nvml/, compiled once with the
// machine's cc and cached), stand-ins for the other libraries and tools as true
// ELF files, an ld.so.cache, device nodes, and what the kernel module shows below
// /proc and /sys. What the GPUs are comes from a profile, a JSON file.
//
// The facts, readings and faults of a running host lie in one text file,
// var/lib/simhost/state below the root. The libraries look at it on every call,
// so that whatever changes there is seen at once by every process that has them
// open. In a container that has only the driver volume the file is not there;
// then the libraries use the inventory that was written into them when the host
// was made, and list the GPUs whose device nodes the container has.
//
// Surprises: like NVML, a process sees a GPU that appeared only after it stopped
// and started the library again, while a GPU that went away answers GPU_IS_LOST
// at once. After an upgrade the library of the old version, still open in a
// process, answers LIB_RM_VERSION_MISMATCH. Without the right to make device
// nodes (no root) they are empty regular files. All functions may be called from
// several processes and goroutines at once.
//
// The tests run without root: go test ./simhost/...
package simhost
