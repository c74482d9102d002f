// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"strconv"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// gpu sends what is known of one GPU; r is nil before its first sample.
func (s *scrape) gpu(g *gpuhost.GPU, r *gpuhost.Reading) {
	id := []string{g.UUID, strconv.Itoa(g.Index), orEmpty(g.Model)}
	s.gauge(descGPU, 1, append(id, g.PCIBusID, strconv.Itoa(g.Minor), orEmpty(g.Architecture), orEmpty(g.Brand))...)
	if r == nil {
		r = &gpuhost.Reading{Err: errNoReading}
	}
	s.gauge(descHealthy, truth(g.Unhealthy == "" && r.Err == nil), id...)
	for _, m := range gpuGauges {
		if v := m.value(g, r); v != nil {
			s.send(m.desc, m.kind, *v, id)
		}
	}
	s.errorsOf(r, id)
	if r.ThrottleReasons != nil {
		for _, reason := range gpuhost.ThrottleNames(*r.ThrottleReasons) {
			s.gauge(descThrottle, 1, append(id, reason)...)
		}
	}
	if r.Processes != nil {
		s.gauge(descProcesses, float64(len(r.Processes)), id...)
	}
	s.mig(g, r)
}

// errorsOf sends the counters of faulty memory.
func (s *scrape) errorsOf(r *gpuhost.Reading, id []string) {
	for location, v := range map[string]*uint64{"l1_cache": r.ECCL1Errors, "l2_cache": r.ECCL2Errors, "device_memory": r.ECCDeviceErrors} {
		if v != nil {
			s.counter(descECC, float64(*v), append(id, location)...)
		}
	}
	for cause, v := range map[string]*uint64{"single_bit_ecc": r.RetiredPagesSingleBit, "double_bit_ecc": r.RetiredPagesDoubleBit} {
		if v != nil {
			s.gauge(descRetiredPages, float64(*v), append(id, cause)...)
		}
	}
	for cause, v := range map[string]*uint64{"correctable": r.RemappedRowsCorrected, "uncorrectable": r.RemappedRowsUncorrected} {
		if v != nil {
			s.gauge(descRemappedRows, float64(*v), append(id, cause)...)
		}
	}
}

// mig sends the MIG devices of a GPU.
func (s *scrape) mig(g *gpuhost.GPU, r *gpuhost.Reading) {
	used := map[string]*gpuhost.MIGReading{}
	for i := range r.MIG {
		used[r.MIG[i].UUID] = &r.MIG[i]
	}
	for i := range g.MIGDevices {
		m := &g.MIGDevices[i]
		s.gauge(descMIG, 1, m.UUID, g.UUID, m.Profile)
		if m.TotalBytes != nil {
			s.gauge(descMIGTotal, float64(*m.TotalBytes), m.UUID, g.UUID)
		}
		if u := used[m.UUID]; u != nil && u.MemoryUsedBytes != nil {
			s.gauge(descMIGUsed, float64(*u.MemoryUsedBytes), m.UUID, g.UUID)
		}
	}
}

// xids sends the counters of XID events.
func (s *scrape) xids(counts map[string]map[uint64]uint64) {
	for uuid, byXID := range counts {
		for xid, n := range byXID {
			s.counter(descXID, float64(n), uuid, strconv.FormatUint(xid, 10))
		}
	}
}

func orEmpty(v *string) string {
	if v == nil {
		return ""
	}
	return *v
}
