// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"
	"strconv"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// JSON renders the answer of gpu/info/json, with a newline at the end.
func (i *Info) JSON() ([]byte, error) { return compactJSON(i) }

// Text renders the answer of gpu/info.
func (i *Info) Text() []byte {
	s := &sheet{}
	s.blank()
	s.value(0, "Driver version", i.Version.Driver)
	s.value(0, "Supported CUDA version", text(i.Version.CUDA))
	for n := range i.Devices {
		s.blank()
		i.Devices[n].write(s)
	}
	s.blank()
	return s.bytes()
}

func (d *InfoDevice) write(s *sheet) {
	s.plain(0, fmt.Sprintf("Device #%d", d.index))
	s.value(1, "Model", text(d.Model))
	s.value(1, "UUID", d.UUID)
	s.value(1, "Path", d.Path)
	s.value(1, "Family", text(d.Family))
	s.value(1, "Arch", text(d.Arch))
	s.value(1, "Cores", number(d.Cores, ""))
	s.value(1, "Power", number(d.Power, " W"))
	s.value(1, "CPU Affinity", fmt.Sprintf("NUMA node%d", d.CPUAffinity))
	s.plain(1, "PCI")
	s.value(2, "Bus ID", d.PCI.BusID)
	s.value(2, "BAR1", number(d.PCI.BAR1, " MiB"))
	s.value(2, "Bandwidth", number(d.PCI.Bandwidth, " MB/s"))
	d.Memory.write(s)
	s.plain(1, "Clocks")
	s.value(2, "Cores", number(d.Clocks.Cores, " MHz"))
	s.value(2, "Memory", number(d.Clocks.Memory, " MHz"))
	d.writePeers(s)
}

func (m *InfoMemory) write(s *sheet) {
	ecc := notAvailable
	if m.ECC != nil {
		ecc = strconv.FormatBool(*m.ECC)
	}
	s.plain(1, "Memory")
	s.value(2, "ECC", ecc)
	s.value(2, "Global", number(m.Global, " MiB"))
	s.value(2, "Constant", number(m.Constant, " KiB"))
	s.value(2, "Shared", number(m.Shared, " KiB"))
	s.value(2, "L2 Cache", number(m.L2Cache, " KiB"))
	s.value(2, "Bandwidth", number(m.Bandwidth, " MB/s"))
}

func (d *InfoDevice) writePeers(s *sheet) {
	if len(d.Topology) == 0 {
		s.value(1, "P2P Available", "None")
		return
	}
	s.plain(1, "P2P Available")
	for _, peer := range d.Topology {
		s.plain(2, peer.BusID+" - "+linkText(peer.Link))
	}
}

// linkText names the way between two GPUs (nvidia-docker-v1 GI-6).
func linkText(l gpuhost.Link) string {
	names := [...]string{
		notAvailable,
		"Cross CPU socket",
		"Same CPU socket",
		"Host PCI bridge",
		"Multiple PCI switches",
		"Single PCI switch",
		"Same board",
	}
	if l < 0 || int(l) >= len(names) {
		return notAvailable
	}
	return names[l]
}
