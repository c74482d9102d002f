// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"strconv"
	"time"

	"github.com/gpu-docker/gpu-docker/guard"
)

// settingsAge is how long what an operator may change is believed.
const settingsAge = 5 * time.Minute

// factKey: the facts about a GPU hold as long as its driver's version.
type factKey struct{ uuid, driver string }

// knownFacts are the remembered facts about one GPU.
type knownFacts struct {
	gpu          GPU
	settingsTime time.Time
}

// examination is what is found out about one GPU: either the GPU or why it is
// left out.
type examination struct {
	gpu     GPU
	migs    []migFound
	skipped string
}

func (e *examination) setMIG(mig migState) {
	mig.addTo(&e.gpu)
	e.migs = mig.devices
}

// examine asks a GPU what it is, unless that is known, and how it is. A panic makes it
// unhealthy until the next look.
func (h *Host) examine(s *session, slot *gpuSlot) (e examination) {
	var fault error
	defer func() {
		if fault != nil {
			e.gpu.Unhealthy = fault.Error()
		}
	}()
	defer guard.Catch(h.log, "examining a GPU", &fault)
	e.gpu = h.gpuAt(slot)
	facts, err := h.factsOf(s, slot)
	if err == nil {
		e.gpu = filled(e.gpu, facts)
		err = h.checkHealth(s, slot, &e)
	} else if facts, known := h.remembered(s, slot); known {
		e.gpu = filled(e.gpu, facts.gpu)
	}
	problem := e.gpu.Unhealthy
	if err != nil {
		problem = faultText(err, slot.id.busID)
		e.setMIG(h.lastMIG(slot))
	}
	e.gpu.Unhealthy = h.judge(slot.id.uuid, problem)
	return e
}

// filled gives a GPU the facts that were found out about it.
func filled(gpu, facts GPU) GPU {
	facts.Index, facts.UUID, facts.PCIBusID, facts.Minor = gpu.Index, gpu.UUID, gpu.PCIBusID, gpu.Minor
	facts.NUMANode = gpu.NUMANode
	return facts
}

// remembered are the facts about a slot's GPU from an earlier inventory.
func (h *Host) remembered(s *session, slot *gpuSlot) (knownFacts, bool) {
	h.factsMu.Lock()
	defer h.factsMu.Unlock()
	facts, known := h.facts[factKey{slot.id.uuid, s.driver.Version}]
	return facts, known
}

// factsOf gives the facts about a slot's GPU: asked once for each driver version,
// the operator's settings again every few minutes.
func (h *Host) factsOf(s *session, slot *gpuSlot) (GPU, error) {
	known, have := h.remembered(s, slot)
	if have && time.Since(known.settingsTime) < settingsAge {
		return known.gpu, nil
	}
	device, uuid := slot.handle, slot.id.uuid
	gpu, err := onLane(slot.lane, s.nvml, func(c *caller) (GPU, error) {
		a := h.asker(c, uuid)
		gpu := known.gpu
		if !have {
			gpu = askFacts(a, device)
		}
		askSettings(a, device, &gpu)
		return gpu, a.fault
	})
	if err != nil {
		return GPU{}, err
	}
	if gpu.UnifiedMemory {
		gpu.TotalBytes = h.root.hostMemory("MemTotal")
	}
	if gpu.GlobalBytes == nil {
		gpu.GlobalBytes = gpu.TotalBytes
	}
	h.factsMu.Lock()
	defer h.factsMu.Unlock()
	h.facts[factKey{uuid, s.driver.Version}] = knownFacts{gpu: gpu, settingsTime: time.Now()}
	return gpu, nil
}

// checkHealth asks for the GPU's vital signs and its MIG devices.
func (h *Host) checkHealth(s *session, slot *gpuSlot, e *examination) error {
	index, device, uuid, known := slot.index, slot.handle, slot.id.uuid, slot.vitals
	thorough := h.atFault(uuid)
	known.inFabric = known.inFabric && !thorough
	v, err := onLane(slot.lane, s.nvml, func(c *caller) (vitals, error) {
		a := h.asker(c, uuid)
		if thorough {
			var err error
			if device, err = findAgain(a.caller, index, uuid); err != nil {
				return vitals{}, err
			}
		}
		return checkVitals(a, device, known)
	})
	if errors.Is(err, errReplaced) {
		slot.vacate()
	}
	if err != nil {
		return err
	}
	slot.handle, slot.vitals = v.device, v
	e.setMIG(v.mig)
	if v.mig.mode && len(v.mig.devices) == 0 {
		h.once("no MIG devices "+uuid, func() {
			h.log.Warn("the GPU is in MIG mode but has no MIG devices, so nothing of it is offered", "uuid", uuid)
		})
	}
	if problem := v.problem(); problem != "" {
		e.gpu.Unhealthy = problem
	}
	return nil
}

// asker makes a caller report each refused property once in a process's life
// (cases MET-07).
func (h *Host) asker(c *caller, uuid string) *asker {
	return &asker{caller: c, report: func(err error) {
		var failed *Error
		if !errors.As(err, &failed) {
			return
		}
		h.once(uuid+failed.Call+strconv.Itoa(int(failed.Code)), func() {
			h.log.Warn("a property of a GPU cannot be read", "uuid", uuid, "error", failed)
		})
	}}
}
