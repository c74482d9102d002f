// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package gpuhost knows the facts about one GPU host: its NVIDIA driver, its
// GPUs, their readings and health, their device nodes and the driver's files.
// It knows nothing of Nomad or Docker, and it is the only package that calls NVML.
//
// The model: a [Host] is opened on a driver root. [Host.Inventory] tells what
// is there (slowly changing facts), [Host.Readings] how it is doing (one sample
// shared by all readers), [Host.DriverFiles] which files make up the driver.
//
// A host without a GPU or without a driver is an ordinary state: Open succeeds,
// the inventory is empty and its Reason says why. A driver that is loaded,
// unloaded or upgraded later is noticed by the next Inventory.
//
// Each GPU has a lane (lane.go) through which its NVML calls go one after the
// other and with a time limit. A call that hangs makes its own GPU unhealthy and
// is not made again while it hangs; everything else goes on. A GPU that had a
// fault is trusted again after Config.HealthyAfter without one. A start of NVML
// that nobody waited for to the end is used when it has ended (start.go).
//
// CUDA is asked by a child process, which is this program again: its main calls
// [CUDAProbeMain] first. Without that call, or without libcuda, the facts come
// from NVML and tables.
//
// Not available is nil, never zero: a pointer field is nil when the card or its
// driver does not tell the value. Units stand in the names.
//
// The tests run on simulated hosts. On a machine with a GPU,
// "go test -tags gpu -run TestGPU ./gpuhost" compares with nvidia-smi.
package gpuhost
