// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"testing"
	"unsafe"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// TestLayouts compares the structures that NVML fills with go-nvml's, which come
// from NVML's header.
func TestLayouts(t *testing.T) {
	for _, tc := range []struct {
		name         string
		ours, theirs uintptr
	}{
		{"PCI info", unsafe.Sizeof(nvmlPCIInfo{}), unsafe.Sizeof(gonvml.PciInfo{})},
		{"PCI info, bus id", unsafe.Offsetof(nvmlPCIInfo{}.busID), unsafe.Offsetof(gonvml.PciInfo{}.BusId)},
		{"memory", unsafe.Sizeof(nvmlMemory{}), unsafe.Sizeof(gonvml.Memory{})},
		{"memory, used", unsafe.Offsetof(nvmlMemory{}.used), unsafe.Offsetof(gonvml.Memory{}.Used)},
		{"memory 2", unsafe.Sizeof(nvmlMemoryV2{}), unsafe.Sizeof(gonvml.Memory_v2{})},
		{"memory 2, used", unsafe.Offsetof(nvmlMemoryV2{}.used), unsafe.Offsetof(gonvml.Memory_v2{}.Used)},
		{"BAR1", unsafe.Sizeof(nvmlBAR1Memory{}), unsafe.Sizeof(gonvml.BAR1Memory{})},
		{"BAR1, used", unsafe.Offsetof(nvmlBAR1Memory{}.used), unsafe.Offsetof(gonvml.BAR1Memory{}.Bar1Used)},
		{"utilisation", unsafe.Sizeof(nvmlUtilization{}), unsafe.Sizeof(gonvml.Utilization{})},
		{"process 1", unsafe.Sizeof(nvmlProcessV1{}), unsafe.Sizeof(gonvml.ProcessInfo_v1{})},
		{"process 2", unsafe.Sizeof(nvmlProcessV2{}), unsafe.Sizeof(gonvml.ProcessInfo{})},
		{"process 2, memory", unsafe.Offsetof(nvmlProcessV2{}.usedMemory), unsafe.Offsetof(gonvml.ProcessInfo{}.UsedGpuMemory)},
		{"field value", unsafe.Sizeof(nvmlFieldValue{}), unsafe.Sizeof(gonvml.FieldValue{})},
		{"field value, code", unsafe.Offsetof(nvmlFieldValue{}.code), unsafe.Offsetof(gonvml.FieldValue{}.NvmlReturn)},
		{"field value, value", unsafe.Offsetof(nvmlFieldValue{}.value), unsafe.Offsetof(gonvml.FieldValue{}.Value)},
		{"event", unsafe.Sizeof(nvmlEventData{}), 32},
		{"event, data", unsafe.Offsetof(nvmlEventData{}.eventData), unsafe.Sizeof(uintptr(0)) + 8},
		{"fabric", unsafe.Sizeof(nvmlFabricInfo{}), unsafe.Sizeof(gonvml.GpuFabricInfo{})},
		{"fabric, state", unsafe.Offsetof(nvmlFabricInfo{}.state), unsafe.Offsetof(gonvml.GpuFabricInfo{}.State)},
		{"fabric 3", unsafe.Sizeof(nvmlFabricInfoV3{}), unsafe.Sizeof(gonvml.GpuFabricInfo_v3{})},
		{"fabric 3, state", unsafe.Offsetof(nvmlFabricInfoV3{}.state), unsafe.Offsetof(gonvml.GpuFabricInfo_v3{}.State)},
		{"temperature", unsafe.Sizeof(nvmlTemperature{}), unsafe.Sizeof(gonvml.Temperature{})},
		{"memory 2, version", uintptr(structVersion(unsafe.Sizeof(nvmlMemoryV2{}), 2)), uintptr(gonvml.STRUCT_VERSION(gonvml.Memory_v2{}, 2))},
		{"attributes", unsafe.Sizeof(nvmlDeviceAttributes{}), unsafe.Sizeof(gonvml.DeviceAttributes{})},
		{"attributes, memory", unsafe.Offsetof(nvmlDeviceAttributes{}.memorySizeMB), unsafe.Offsetof(gonvml.DeviceAttributes{}.MemorySizeMB)},
	} {
		if tc.ours != tc.theirs {
			t.Errorf("%s: %d, want %d", tc.name, tc.ours, tc.theirs)
		}
	}
}

// TestConstants does the same for numbers.
func TestConstants(t *testing.T) {
	for _, tc := range []struct {
		name         string
		ours, theirs int
	}{
		{"not supported", int(CodeNotSupported), int(gonvml.ERROR_NOT_SUPPORTED)},
		{"no permission", int(CodeNoPermission), int(gonvml.ERROR_NO_PERMISSION)},
		{"not found", int(CodeNotFound), int(gonvml.ERROR_NOT_FOUND)},
		{"insufficient size", int(CodeInsufficientSize), int(gonvml.ERROR_INSUFFICIENT_SIZE)},
		{"driver not loaded", int(CodeDriverNotLoaded), int(gonvml.ERROR_DRIVER_NOT_LOADED)},
		{"timeout", int(CodeTimeout), int(gonvml.ERROR_TIMEOUT)},
		{"function not found", int(CodeFunctionNotFound), int(gonvml.ERROR_FUNCTION_NOT_FOUND)},
		{"lost", int(CodeGPUIsLost), int(gonvml.ERROR_GPU_IS_LOST)},
		{"reset required", int(CodeResetRequired), int(gonvml.ERROR_RESET_REQUIRED)},
		{"mismatch", int(CodeVersionMismatch), int(gonvml.ERROR_LIB_RM_VERSION_MISMATCH)},
		{"no data", int(CodeNoData), int(gonvml.ERROR_NO_DATA)},
		{"unknown", int(CodeUnknown), int(gonvml.ERROR_UNKNOWN)},
		{"SM clock", clockSM, int(gonvml.CLOCK_SM)},
		{"memory clock", clockMemory, int(gonvml.CLOCK_MEM)},
		{"uncorrected", errorUncorrected, int(gonvml.MEMORY_ERROR_TYPE_UNCORRECTED)},
		{"volatile", errorsVolatile, int(gonvml.VOLATILE_ECC)},
		{"L1", memoryL1, int(gonvml.MEMORY_LOCATION_L1_CACHE)},
		{"L2", memoryL2, int(gonvml.MEMORY_LOCATION_L2_CACHE)},
		{"device memory", memoryDevice, int(gonvml.MEMORY_LOCATION_DEVICE_MEMORY)},
		{"sent", pcieSent, int(gonvml.PCIE_UTIL_TX_BYTES)},
		{"received", pcieReceived, int(gonvml.PCIE_UTIL_RX_BYTES)},
		{"XID", eventXID, gonvml.EventTypeXidCriticalError},
		{"fabric completed", fabricCompleted, gonvml.GPU_FABRIC_STATE_COMPLETED},
		{"field L1", fieldECCL1, gonvml.FI_DEV_ECC_DBE_VOL_L1},
		{"field retired pending", fieldRetiredPending, gonvml.FI_DEV_RETIRED_PENDING},
		{"field energy", fieldEnergy, gonvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION},
		{"field NVLink tx", fieldNVLinkTx, gonvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX},
		{"field remap pending", fieldRemapPending, gonvml.FI_DEV_REMAPPED_PENDING},
		{"field remap failed", fieldRemapFailed, gonvml.FI_DEV_REMAPPED_FAILURE},
		{"field power", fieldPowerInstant, gonvml.FI_DEV_POWER_INSTANT},
		{"value double", valueDouble, int(gonvml.VALUE_TYPE_DOUBLE)},
		{"value ushort", valueUshort, int(gonvml.VALUE_TYPE_UNSIGNED_SHORT)},
		{"brand titanrtx", len(brands) - 1, int(gonvml.BRAND_TITAN_RTX)},
	} {
		if tc.ours != tc.theirs {
			t.Errorf("%s: %d, want %d", tc.name, tc.ours, tc.theirs)
		}
	}
}
