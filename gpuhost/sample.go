// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"time"
	"unsafe"
)

// sampleFields are the readings that NVML gives all at once.
var sampleFields = []uint32{
	fieldMemoryTemp, fieldEnergy, fieldNVLinkRx, fieldNVLinkTx,
	fieldRetiredSingle, fieldRetiredDouble, fieldRetiredPending,
	fieldRemapCorrected, fieldRemapUncorrect, fieldRemapPending, fieldRemapFailed,
	fieldPowerInstant, fieldPowerAverage,
}

// The kinds and places of memory errors, and the ways of a PCIe counter.
const (
	errorUncorrected = 1
	errorsVolatile   = 0
	memoryL1         = 0
	memoryL2         = 1
	memoryDevice     = 2
	pcieSent         = 0
	pcieReceived     = 1
)

// takeSample reads the state of one GPU. What a card does not tell stays nil. A
// query that fails otherwise makes the sample's Err, since then nothing of the
// GPU can be trusted; only what newer drivers added is not that important.
func takeSample(a *asker, device uintptr, last *sample) sample {
	s := sample{time: time.Now()}
	core := &asker{caller: a.caller, report: func(err error) {
		a.report(err)
		if s.Err == nil {
			s.Err = err
		}
	}}
	s.PowerMilliwatts = core.number(core.uint(fnPowerUsage, device))
	s.TemperatureCelsius = core.number(askTemperature(core.caller, device))
	sampleUtilization(core, device, &s.Reading)
	sampleMemory(core, device, &s.Reading)
	s.SMClockMHz = core.number(core.uintOf(fnClock, device, clockSM))
	s.MemoryClockMHz = core.number(core.uintOf(fnClock, device, clockMemory))
	s.PCIeTxKBps = core.number(core.uintOf(fnPCIeThroughput, device, pcieSent))
	s.PCIeRxKBps = core.number(core.uintOf(fnPCIeThroughput, device, pcieReceived))
	s.ECCL1Errors = core.number(memoryErrors(core.caller, device, memoryL1))
	s.ECCL2Errors = core.number(memoryErrors(core.caller, device, memoryL2))
	s.ECCDeviceErrors = core.number(memoryErrors(core.caller, device, memoryDevice))
	var known []Process
	if last != nil {
		known = last.Processes
	}
	s.Processes = askProcesses(core, device, known)
	s.FanPercent = a.number(a.uint(fnFan, device))
	var reasons uint64
	err := a.call(fnThrottleReasons, device, uintptr(unsafe.Pointer(&reasons)))
	s.ThrottleReasons = a.number(reasons, err)
	s.addFields(askFields(a, device, sampleFields))
	return s
}

func sampleUtilization(a *asker, device uintptr, r *Reading) {
	var use nvmlUtilization
	if err := a.call(fnUtilization, device, uintptr(unsafe.Pointer(&use))); err != nil {
		a.refused(err)
	} else {
		gpu, memory := uint64(use.gpu), uint64(use.memory)
		r.GPUPercent, r.MemoryPercent = &gpu, &memory
	}
	r.EncoderPercent = a.number(codecUse(a.caller, fnEncoder, device))
	r.DecoderPercent = a.number(codecUse(a.caller, fnDecoder, device))
}

// codecUse asks for the use of the encoder or decoder; the sampling period that
// comes with it is not told on.
func codecUse(c *caller, fn function, device uintptr) (uint64, error) {
	var answer struct{ use, period uint32 }
	err := c.call(fn, device, uintptr(unsafe.Pointer(&answer.use)), uintptr(unsafe.Pointer(&answer.period)))
	return uint64(answer.use), err
}

func sampleMemory(a *asker, device uintptr, r *Reading) {
	memory, err := askMemoryInfo(a.caller, device)
	if err == nil {
		r.MemoryUsedBytes, r.MemoryTotalBytes = &memory.used, &memory.total
	} else {
		a.refused(err)
	}
	var bar1 nvmlBAR1Memory
	if err := a.call(fnBAR1, device, uintptr(unsafe.Pointer(&bar1))); err == nil {
		r.BAR1UsedBytes = &bar1.used
	} else {
		a.refused(err)
	}
}

func memoryErrors(c *caller, device uintptr, place uintptr) (uint64, error) {
	var count uint64
	err := c.call(fnMemoryErrors, device, errorUncorrected, errorsVolatile, place, uintptr(unsafe.Pointer(&count)))
	return count, err
}

// addFields takes over what came as field values. Power is also a field, which
// answers where the call of older drivers does not (cases MET-07).
func (s *sample) addFields(told map[uint32]uint64) {
	number := func(field uint32) *uint64 {
		value, ok := told[field]
		if !ok {
			return nil
		}
		return &value
	}
	flag := func(field uint32) *bool {
		value, ok := told[field]
		if !ok {
			return nil
		}
		set := value != 0
		return &set
	}
	if s.PowerMilliwatts == nil {
		s.PowerMilliwatts = number(fieldPowerAverage)
	}
	if s.PowerMilliwatts == nil {
		s.PowerMilliwatts = number(fieldPowerInstant)
	}
	s.MemoryTemperatureCelsius = number(fieldMemoryTemp)
	s.EnergyMillijoules = number(fieldEnergy)
	s.nvlinkRx, s.nvlinkTx = number(fieldNVLinkRx), number(fieldNVLinkTx)
	s.RetiredPagesSingleBit, s.RetiredPagesDoubleBit = number(fieldRetiredSingle), number(fieldRetiredDouble)
	s.RetiredPagesPending = flag(fieldRetiredPending)
	s.RemappedRowsCorrected, s.RemappedRowsUncorrected = number(fieldRemapCorrected), number(fieldRemapUncorrect)
	s.RemappedRowsPending, s.RemappedRowsFailed = flag(fieldRemapPending), flag(fieldRemapFailed)
}
