// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import "unsafe"

// asker turns the answers of optional questions into pointers: nil where the
// card does not tell. Other failures go to report, which may be called often.
type asker struct {
	*caller
	report func(err error)
}

// number gives a value or nil.
func (a *asker) number(value uint64, err error) *uint64 {
	if err != nil {
		a.refused(err)
		return nil
	}
	return &value
}

// flag gives a switch or nil.
func (a *asker) flag(value bool, err error) *bool {
	if err != nil {
		a.refused(err)
		return nil
	}
	return &value
}

// name gives a text or nil; an empty text tells nothing.
func (a *asker) name(value string, err error) *string {
	if err != nil {
		a.refused(err)
		return nil
	}
	if value == "" {
		return nil
	}
	return &value
}

func (a *asker) refused(err error) {
	if !notTold(err) && !isFault(err) {
		a.report(err)
	}
}

// The clocks of a GPU.
const (
	clockSM     = 1
	clockMemory = 2
)

// askFacts asks everything that a driver does not change while it runs. It is
// asked once for each GPU and driver version.
func askFacts(a *asker, device uintptr) GPU {
	g := GPU{
		Model:             a.name(a.text(fnName, device, 96)),
		MaxSMClockMHz:     a.number(a.uintOf(fnMaxClock, device, clockSM)),
		MaxMemoryClockMHz: a.number(a.uintOf(fnMaxClock, device, clockMemory)),
		PCIeMaxGeneration: a.number(a.uint(fnMaxPCIeGeneration, device)),
		PCIeMaxWidth:      a.number(a.uint(fnMaxPCIeWidth, device)),
		Cores:             a.number(a.uint(fnCores, device)),
	}
	if brand := a.number(a.uint(fnBrand, device)); brand != nil {
		name := brandName(uint32(*brand))
		g.Brand = &name
	}
	g.PCIeBandwidthMBps = pcieBandwidth(g.PCIeMaxGeneration, g.PCIeMaxWidth)
	askArchitecture(a, device, &g)
	askMemory(a, device, &g)
	return g
}

func askArchitecture(a *asker, device uintptr, g *GPU) {
	var cc struct{ major, minor int32 }
	err := a.call(fnComputeCapability, device, uintptr(unsafe.Pointer(&cc.major)), uintptr(unsafe.Pointer(&cc.minor)))
	if err == nil {
		g.ComputeCapability = &ComputeCapability{int(cc.major), int(cc.minor)}
		g.Architecture = architecture(*g.ComputeCapability)
		return
	}
	a.refused(err)
	number := a.number(a.uint(fnArchitecture, device))
	if number == nil {
		return
	}
	if name, known := architectureByNVML[uint32(*number)]; known {
		g.Architecture = &name
	}
}

func askMemory(a *asker, device uintptr, g *GPU) {
	memory, err := askMemoryInfo(a.caller, device)
	if err == nil {
		g.TotalBytes = &memory.total
	} else {
		a.refused(err)
		g.UnifiedMemory = codeOf(err) == CodeNotSupported
	}
	var bar1 nvmlBAR1Memory
	if err := a.call(fnBAR1, device, uintptr(unsafe.Pointer(&bar1))); err == nil {
		g.BAR1TotalBytes = &bar1.total
	} else {
		a.refused(err)
	}
	if g.MaxMemoryClockMHz != nil {
		kHz := *g.MaxMemoryClockMHz * 1000
		g.MemoryBandwidthMBps = memoryBandwidth(&kHz, a.number(a.uint(fnMemoryBusWidth, device)))
	}
}

// askMemoryInfo asks for the memory of a GPU or MIG device, in the first form
// or, where that is not supported, the second.
func askMemoryInfo(c *caller, device uintptr) (nvmlMemory, error) {
	var first nvmlMemory
	err := c.call(fnMemory, device, uintptr(unsafe.Pointer(&first)))
	if err == nil || !notTold(err) {
		return first, err
	}
	second := nvmlMemoryV2{version: structVersion(unsafe.Sizeof(nvmlMemoryV2{}), 2)}
	if c.call(fnMemoryV2, device, uintptr(unsafe.Pointer(&second))) == nil {
		return nvmlMemory{total: second.total, free: second.free, used: second.used}, nil
	}
	if c.fault != nil {
		return first, c.fault
	}
	return first, err
}

// askSettings asks what an operator may change at any time.
func askSettings(a *asker, device uintptr, g *GPU) {
	g.PowerLimitMilliwatts = a.number(a.uint(fnPowerLimit, device))
	g.DisplayActive = a.flag(a.bool(fnDisplayActive, device))
	g.PersistenceMode = a.flag(a.bool(fnPersistenceMode, device))
	var ecc struct{ current, pending uint32 }
	err := a.call(fnECCMode, device, uintptr(unsafe.Pointer(&ecc.current)), uintptr(unsafe.Pointer(&ecc.pending)))
	g.ECCEnabled = a.flag(ecc.current != 0, err)
}
