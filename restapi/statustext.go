// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"
	"strconv"
)

// JSON renders the answer of gpu/status/json, with a newline at the end.
func (s *Status) JSON() ([]byte, error) { return compactJSON(s) }

// Text renders the answer of gpu/status.
func (s *Status) Text() []byte {
	out := &sheet{}
	for n := range s.Devices {
		out.blank()
		s.Devices[n].write(out)
	}
	out.blank()
	return out.bytes()
}

func (d *StatusDevice) write(s *sheet) {
	s.plain(0, fmt.Sprintf("Device #%d", d.index))
	s.value(1, "Power", share(d.Power, d.limits.power, " W"))
	s.value(1, "Temperature", number(d.Temperature, " °C"))
	s.plain(1, "Utilization")
	s.value(2, "GPU", number(d.Utilization.GPU, " %"))
	s.value(2, "Memory", number(d.Utilization.Memory, " %"))
	s.value(2, "Encoder", number(d.Utilization.Encoder, " %"))
	s.value(2, "Decoder", number(d.Utilization.Decoder, " %"))
	s.plain(1, "Memory")
	s.value(2, "Global", share(d.Memory.GlobalUsed, d.limits.memory, " MiB"))
	s.plain(2, "ECC Errors")
	s.value(3, "L1 Cache", number(d.Memory.ECCErrors.L1Cache, ""))
	s.value(3, "L2 Cache", number(d.Memory.ECCErrors.L2Cache, ""))
	s.value(3, "Global", number(d.Memory.ECCErrors.Global, ""))
	s.plain(1, "PCI")
	s.value(2, "BAR1", share(d.PCI.BAR1Used, d.limits.bar1, " MiB"))
	s.plain(2, "Throughput")
	s.value(3, "RX", number(d.PCI.Throughput.RX, " MB/s"))
	s.value(3, "TX", number(d.PCI.Throughput.TX, " MB/s"))
	s.plain(1, "Clocks")
	s.value(2, "Cores", number(d.Clocks.Cores, " MHz"))
	s.value(2, "Memory", number(d.Clocks.Memory, " MHz"))
	d.writeProcesses(s)
}

// writeProcesses prints names as they are: v1's text form does not escape.
func (d *StatusDevice) writeProcesses(s *sheet) {
	if len(d.Processes) == 0 {
		s.value(1, "Processes", "None")
		return
	}
	s.plain(1, "Processes")
	for _, p := range d.Processes {
		s.value(2, "- PID", strconv.Itoa(p.PID))
		s.value(3, "Name", text(p.Name))
		s.value(3, "Memory", number(p.MemoryUsed, " MiB"))
	}
}
