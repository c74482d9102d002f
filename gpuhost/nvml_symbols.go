// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// function is one entry of the table of NVML calls.
type function int

// The NVML calls that we use.
const (
	fnInit function = iota
	fnShutdown
	fnDriverVersion
	fnNVMLVersion
	fnCUDAVersion
	fnProcessName
	fnCount
	fnHandleByIndex
	fnName
	fnBrand
	fnUUID
	fnMinor
	fnPCIInfo
	fnArchitecture
	fnComputeCapability
	fnCores
	fnPowerLimit
	fnPowerUsage
	fnTemperature
	fnTemperatureV
	fnUtilization
	fnEncoder
	fnDecoder
	fnMemory
	fnMemoryV2
	fnBAR1
	fnMaxClock
	fnClock
	fnMaxPCIeGeneration
	fnMaxPCIeWidth
	fnPCIeThroughput
	fnMemoryBusWidth
	fnDisplayActive
	fnPersistenceMode
	fnECCMode
	fnMemoryErrors
	fnRetiredPending
	fnFan
	fnThrottleReasons
	fnFieldValues
	fnProcesses
	fnProcessesV1
	fnCommonAncestor
	fnP2PStatus
	fnMIGMode
	fnMIGMaxCount
	fnMIGHandle
	fnGPUInstanceID
	fnComputeInstanceID
	fnAttributes
	fnFabric
	fnFabricV
	fnEventSetCreate
	fnEventSetFree
	fnEventTypes
	fnRegisterEvents
	fnEventSetWait
	functionCount
)

// symbolNames are the names of each call, the newest version first. Versions
// stand together only where they take the same arguments; a structure that grew
// is always given its largest size.
var symbolNames = [functionCount][]string{
	fnInit:              {"nvmlInit_v2", "nvmlInit"},
	fnShutdown:          {"nvmlShutdown"},
	fnDriverVersion:     {"nvmlSystemGetDriverVersion"},
	fnNVMLVersion:       {"nvmlSystemGetNVMLVersion"},
	fnCUDAVersion:       {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
	fnProcessName:       {"nvmlSystemGetProcessName"},
	fnCount:             {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	fnHandleByIndex:     {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	fnName:              {"nvmlDeviceGetName"},
	fnBrand:             {"nvmlDeviceGetBrand"},
	fnUUID:              {"nvmlDeviceGetUUID"},
	fnMinor:             {"nvmlDeviceGetMinorNumber"},
	fnPCIInfo:           {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
	fnArchitecture:      {"nvmlDeviceGetArchitecture"},
	fnComputeCapability: {"nvmlDeviceGetCudaComputeCapability"},
	fnCores:             {"nvmlDeviceGetNumGpuCores"},
	fnPowerLimit:        {"nvmlDeviceGetPowerManagementLimit"},
	fnPowerUsage:        {"nvmlDeviceGetPowerUsage"},
	fnTemperature:       {"nvmlDeviceGetTemperature"},
	fnTemperatureV:      {"nvmlDeviceGetTemperatureV"},
	fnUtilization:       {"nvmlDeviceGetUtilizationRates"},
	fnEncoder:           {"nvmlDeviceGetEncoderUtilization"},
	fnDecoder:           {"nvmlDeviceGetDecoderUtilization"},
	fnMemory:            {"nvmlDeviceGetMemoryInfo"},
	fnMemoryV2:          {"nvmlDeviceGetMemoryInfo_v2"},
	fnBAR1:              {"nvmlDeviceGetBAR1MemoryInfo"},
	fnMaxClock:          {"nvmlDeviceGetMaxClockInfo"},
	fnClock:             {"nvmlDeviceGetClockInfo"},
	fnMaxPCIeGeneration: {"nvmlDeviceGetMaxPcieLinkGeneration"},
	fnMaxPCIeWidth:      {"nvmlDeviceGetMaxPcieLinkWidth"},
	fnPCIeThroughput:    {"nvmlDeviceGetPcieThroughput"},
	fnMemoryBusWidth:    {"nvmlDeviceGetMemoryBusWidth"},
	fnDisplayActive:     {"nvmlDeviceGetDisplayActive"},
	fnPersistenceMode:   {"nvmlDeviceGetPersistenceMode"},
	fnECCMode:           {"nvmlDeviceGetEccMode"},
	fnMemoryErrors:      {"nvmlDeviceGetMemoryErrorCounter"},
	fnRetiredPending:    {"nvmlDeviceGetRetiredPagesPendingStatus"},
	fnFan:               {"nvmlDeviceGetFanSpeed"},
	fnThrottleReasons:   {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
	fnFieldValues:       {"nvmlDeviceGetFieldValues"},
	fnProcesses:         {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
	fnProcessesV1:       {"nvmlDeviceGetComputeRunningProcesses"},
	fnCommonAncestor:    {"nvmlDeviceGetTopologyCommonAncestor"},
	fnP2PStatus:         {"nvmlDeviceGetP2PStatus"},
	fnMIGMode:           {"nvmlDeviceGetMigMode"},
	fnMIGMaxCount:       {"nvmlDeviceGetMaxMigDeviceCount"},
	fnMIGHandle:         {"nvmlDeviceGetMigDeviceHandleByIndex"},
	fnGPUInstanceID:     {"nvmlDeviceGetGpuInstanceId"},
	fnComputeInstanceID: {"nvmlDeviceGetComputeInstanceId"},
	fnAttributes:        {"nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"},
	fnFabric:            {"nvmlDeviceGetGpuFabricInfo"},
	fnFabricV:           {"nvmlDeviceGetGpuFabricInfoV"},
	fnEventSetCreate:    {"nvmlEventSetCreate"},
	fnEventSetFree:      {"nvmlEventSetFree"},
	fnEventTypes:        {"nvmlDeviceGetSupportedEventTypes"},
	fnRegisterEvents:    {"nvmlDeviceRegisterEvents"},
	fnEventSetWait:      {"nvmlEventSetWait_v2", "nvmlEventSetWait"},
}

// symbol is a call as one library has it: the newest name it exports and its
// address, which is zero when it exports none.
type symbol struct {
	name    string
	address uintptr
}
