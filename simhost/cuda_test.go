// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// cuda are the functions of libcuda.so.1 that the tests call.
type cuda struct {
	init        func(uint32) int32
	version     func(*int32) int32
	count       func(*int32) int32
	name        func(*byte, int32, int32) int32
	uuid        func(*byte, int32) int32
	busID       func(*byte, int32, int32) int32
	byBusID     func(*int32, string) int32
	attribute   func(*int32, int32, int32) int32
	capability  func(*int32, *int32, int32) int32
	memory      func(*uint64, int32) int32
	peer        func(*int32, int32, int32) int32
	errorString func(int32, **byte) int32
}

func openCUDA(t *testing.T, h *simhost.Host) *cuda {
	t.Helper()
	library, err := purego.Dlopen(filepath.Join(h.Root(), "usr/lib/x86_64-linux-gnu/libcuda.so.1"), purego.RTLD_NOW|purego.RTLD_LOCAL)
	must.NoError(t, err)
	c := new(cuda)
	for name, function := range map[string]any{"cuInit": &c.init, "cuDriverGetVersion": &c.version, "cuDeviceGetCount": &c.count,
		"cuDeviceGetName": &c.name, "cuDeviceGetUuid": &c.uuid, "cuDeviceGetPCIBusId": &c.busID, "cuDeviceGetByPCIBusId": &c.byBusID,
		"cuDeviceGetAttribute": &c.attribute, "cuDeviceComputeCapability": &c.capability, "cuDeviceTotalMem_v2": &c.memory,
		"cuDeviceCanAccessPeer": &c.peer, "cuGetErrorString": &c.errorString} {
		purego.RegisterLibFunc(function, library, name)
	}
	return c
}

// TestCUDA reads the "cuda" facts of a profile through the driver API.
func TestCUDA(t *testing.T) {
	h := up(t, "a100x8-535")
	c := openCUDA(t, h)
	var n int32
	must.Eq(t, 3, c.count(&n)) // not initialised
	must.Eq(t, 0, c.version(&n))
	must.Eq(t, 12020, n)
	must.Eq(t, 0, c.init(0))
	must.Eq(t, 0, c.count(&n))
	must.Eq(t, 8, n)
	text := make([]byte, 64)
	must.Eq(t, 0, c.name(&text[0], 64, 2))
	must.Eq(t, "NVIDIA A100-SXM4-40GB", untilNUL(text))
	must.Eq(t, 0, c.busID(&text[0], 64, 2))
	must.Eq(t, "0000:47:00.0", untilNUL(text))
	must.Eq(t, 0, c.byBusID(&n, "0000:BD:00.0"))
	must.Eq(t, 7, n)
	must.Eq(t, 0, c.uuid(&text[0], 0))
	must.Eq(t, "6f3e3fca", fmt.Sprintf("%x", text[:4]))
	var major, minor int32
	must.Eq(t, 0, c.capability(&major, &minor, 0))
	must.Eq(t, "8 0", fmt.Sprint(major, minor))
	var size uint64
	must.Eq(t, 0, c.memory(&size, 0))
	must.Eq(t, 42298834944, size)
	for attribute, want := range map[int32]int32{9: 65536, 16: 108, 32: 1, 36: 1215000, 37: 5120, 38: 41943040, 75: 8, 76: 0, 81: 167936} {
		must.Eq(t, 0, c.attribute(&n, attribute, 0))
		must.Eq(t, want, n, must.Sprint(attribute))
	}
	must.Eq(t, 0, c.peer(&n, 0, 7))
	must.Eq(t, 1, n)
	must.Eq(t, 101, c.memory(&size, 8))
	must.NoError(t, h.Fail("cuDriverGetVersion", 999, simhost.AllGPUs))
	must.Eq(t, 999, c.version(&n))
}

// TestCUDAWithoutDriver: the version is told without a kernel module, devices are not.
func TestCUDAWithoutDriver(t *testing.T) {
	c := openCUDA(t, up(t, "none"))
	var n int32
	must.Eq(t, 0, c.version(&n))
	must.Eq(t, 12020, n)
	must.Eq(t, 100, c.init(0))
}

func untilNUL(text []byte) string {
	for i, b := range text {
		if b == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}
