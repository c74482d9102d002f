// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// notAvailable stands where a card does not tell a value.
const notAvailable = "N/A"

// The names of the statistics, the first eleven those of nomad-device-nvidia.
const (
	statPower          = "Power usage"
	statGPU            = "GPU utilization"
	statMemoryUse      = "Memory utilization"
	statEncoder        = "Encoder utilization"
	statDecoder        = "Decoder utilization"
	statTemperature    = "Temperature"
	statMemory         = "Memory state"
	statBAR1           = "BAR1 buffer state"
	statECCL1          = "ECC L1 errors"
	statECCL2          = "ECC L2 errors"
	statECCDevice      = "ECC memory errors"
	statCoresClock     = "Cores clock"
	statMemoryClock    = "Memory clock"
	statThrottle       = "Throttle reasons"
	statPCIeRx         = "PCIe received"
	statPCIeTx         = "PCIe sent"
	statNVLinkRx       = "NVLink received"
	statNVLinkTx       = "NVLink sent"
	statFan            = "Fan speed"
	statMemoryTemp     = "Memory temperature"
	statEnergy         = "Energy"
	statRetiredSingle  = "Retired pages, single bit"
	statRetiredDouble  = "Retired pages, double bit"
	statRemapCorrected = "Remapped rows, corrected"
	statRemapUncorrect = "Remapped rows, uncorrected"
	statProcesses      = "Processes"
)

// instanceStats are the statistics of one id. What a card does not tell is
// notAvailable; the shares of a GPU all show the whole GPU. Of a MIG device only
// its memory is its own.
func instanceStats(i *instance, r *gpuhost.Reading, at time.Time) *device.DeviceStats {
	memory := pair(mib(r.MemoryUsedBytes), mib(firstSet(r.MemoryTotalBytes, i.gpu.TotalBytes)), structs.UnitMiB, "memory in use, of all memory")
	if i.mig != nil {
		used, total := migMemory(i, r)
		memory = pair(mib(used), mib(total), structs.UnitMiB, "memory in use, of all memory of the MIG device")
	}
	stats := &structs.StatObject{
		Attributes: map[string]*structs.StatValue{
			statPower:          pair(scaled(r.PowerMilliwatts, 1000), scaled(i.gpu.PowerLimitMilliwatts, 1000), structs.UnitW, "power drawn by the whole board, of its limit"),
			statGPU:            single(r.GPUPercent, "%", "time in which a kernel was running"),
			statMemoryUse:      single(r.MemoryPercent, "%", "time in which memory was read or written"),
			statEncoder:        single(r.EncoderPercent, "%", "use of the video encoder"),
			statDecoder:        single(r.DecoderPercent, "%", "use of the video decoder"),
			statTemperature:    single(r.TemperatureCelsius, "C", "temperature of the GPU"),
			statMemory:         memory,
			statBAR1:           pair(mib(r.BAR1UsedBytes), mib(i.gpu.BAR1TotalBytes), structs.UnitMiB, "BAR1 memory in use, of all of it"),
			statECCL1:          single(r.ECCL1Errors, "#", "uncorrected errors of the L1 cache since the driver was loaded"),
			statECCL2:          single(r.ECCL2Errors, "#", "uncorrected errors of the L2 cache since the driver was loaded"),
			statECCDevice:      single(r.ECCDeviceErrors, "#", "uncorrected errors of the memory since the driver was loaded"),
			statCoresClock:     pair(r.SMClockMHz, i.gpu.MaxSMClockMHz, structs.UnitMHz, "clock of the cores, of its maximum"),
			statMemoryClock:    pair(r.MemoryClockMHz, i.gpu.MaxMemoryClockMHz, structs.UnitMHz, "clock of the memory, of its maximum"),
			statThrottle:       throttle(r.ThrottleReasons),
			statPCIeRx:         single(r.PCIeRxKBps, structs.UnitKBPerS, "data received over PCIe"),
			statPCIeTx:         single(r.PCIeTxKBps, structs.UnitKBPerS, "data sent over PCIe"),
			statNVLinkRx:       single(r.NVLinkRxKBps, structs.UnitKBPerS, "data received over all NVLinks"),
			statNVLinkTx:       single(r.NVLinkTxKBps, structs.UnitKBPerS, "data sent over all NVLinks"),
			statFan:            single(r.FanPercent, "%", "speed of the fan, of its maximum"),
			statMemoryTemp:     single(r.MemoryTemperatureCelsius, "C", "temperature of the memory"),
			statEnergy:         single(scaled(r.EnergyMillijoules, 1000), "J", "energy used since the driver was loaded"),
			statRetiredSingle:  single(r.RetiredPagesSingleBit, "#", "memory pages retired for single bit errors"),
			statRetiredDouble:  single(r.RetiredPagesDoubleBit, "#", "memory pages retired for double bit errors"),
			statRemapCorrected: single(r.RemappedRowsCorrected, "#", "memory rows remapped for corrected errors"),
			statRemapUncorrect: single(r.RemappedRowsUncorrected, "#", "memory rows remapped for uncorrected errors"),
		},
	}
	if len(r.Processes) > 0 && i.mig == nil {
		stats.Nested = map[string]*structs.StatObject{statProcesses: processStats(r.Processes)}
	}
	return &device.DeviceStats{Summary: memory, Stats: stats, Timestamp: at}
}

func migMemory(i *instance, r *gpuhost.Reading) (used, total *uint64) {
	at := slices.IndexFunc(r.MIG, func(m gpuhost.MIGReading) bool { return m.UUID == i.uuid })
	if at < 0 {
		return nil, i.mig.TotalBytes
	}
	return r.MIG[at].MemoryUsedBytes, firstSet(r.MIG[at].MemoryTotalBytes, i.mig.TotalBytes)
}

// processStats has one object a process, by its number.
func processStats(processes []gpuhost.Process) *structs.StatObject {
	all := &structs.StatObject{Nested: make(map[string]*structs.StatObject, len(processes))}
	for _, process := range processes {
		all.Nested[strconv.Itoa(process.PID)] = &structs.StatObject{Attributes: map[string]*structs.StatValue{
			"Name":   {StringVal: &process.Name},
			"Memory": single(mib(process.MemoryUsedBytes), structs.UnitMiB, "GPU memory in use"),
		}}
	}
	return all
}

// throttle names why the clocks are below their maximum.
func throttle(reasons *uint64) *structs.StatValue {
	value := &structs.StatValue{Desc: "why the clocks are below their maximum"}
	words := notAvailable
	if reasons != nil {
		words = firstOf(strings.Join(gpuhost.ThrottleNames(*reasons), ", "), "none")
	}
	value.StringVal = &words
	return value
}

// single is one number.
func single(n *uint64, unit, desc string) *structs.StatValue {
	value := &structs.StatValue{Unit: unit, Desc: desc}
	if n == nil {
		return unavailable(value)
	}
	value.IntNumeratorVal = signed(*n)
	return value
}

// pair is a number of another; without either it is not available.
func pair(n, of *uint64, unit, desc string) *structs.StatValue {
	value := &structs.StatValue{Unit: unit, Desc: desc}
	if n == nil || of == nil {
		return unavailable(value)
	}
	value.IntNumeratorVal, value.IntDenominatorVal = signed(*n), signed(*of)
	return value
}

func unavailable(value *structs.StatValue) *structs.StatValue {
	words := notAvailable
	value.StringVal = &words
	return value
}

func signed(n uint64) *int64 {
	i := int64(n)
	return &i
}

func mib(bytes *uint64) *uint64 { return scaled(bytes, 1<<20) }

// scaled divides, cutting; nil stays nil.
func scaled(n *uint64, by uint64) *uint64 {
	if n == nil {
		return nil
	}
	quotient := *n / by
	return &quotient
}

func firstSet(values ...*uint64) *uint64 {
	for _, value := range values {
		if value != nil {
			return value
		}
	}
	return nil
}
