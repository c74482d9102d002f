// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// fixture is a host as the golden data describes it (nvidia-docker-v1 §14).
type fixture struct {
	DriverVersion string `json:"driver_version"`
	CUDAVersion   int    `json:"cuda_driver_version"`
	UVMTools      bool   `json:"uvm_tools"`
	Devices       []fixtureDevice
	Topology      []fixtureLink
	Fail          struct {
		DriverVersion string `json:"driver_version"`
		CUDAVersion   string `json:"cuda_version"`
		UVMToolsStat  string `json:"uvm_tools_stat"`
	}
	Scenarios []struct {
		Name string
		Set  []struct {
			At    string
			Value any
		}
	}
}

type fixtureDevice struct {
	NVML struct {
		Name        *string
		UUID        string
		PCIBusID    string `json:"pci_bus_id"`
		Minor       int
		NUMANode    *string `json:"numa_node"`
		PowerLimit  *uint64 `json:"power_limit_mw"`
		BAR1Total   *uint64 `json:"bar1_total_bytes"`
		BAR1Used    *uint64 `json:"bar1_used_bytes"`
		PCIeGen     *uint64 `json:"pcie_gen_max"`
		PCIeWidth   *uint64 `json:"pcie_width_max"`
		MaxSM       *uint64 `json:"clock_max_sm_mhz"`
		MaxMem      *uint64 `json:"clock_max_mem_mhz"`
		Power       *uint64 `json:"power_usage_mw"`
		Temperature *uint64 `json:"temperature_c"`
		UtilGPU     *uint64 `json:"util_gpu_pct"`
		UtilMem     *uint64 `json:"util_mem_pct"`
		UtilEnc     *uint64 `json:"util_enc_pct"`
		UtilDec     *uint64 `json:"util_dec_pct"`
		MemUsed     *uint64 `json:"mem_used_bytes"`
		SM          *uint64 `json:"clock_sm_mhz"`
		Mem         *uint64 `json:"clock_mem_mhz"`
		ECCL1       *uint64 `json:"ecc_l1"`
		ECCL2       *uint64 `json:"ecc_l2"`
		ECCMem      *uint64 `json:"ecc_mem"`
		RX          *uint64 `json:"pcie_rx_kbps"`
		TX          *uint64 `json:"pcie_tx_kbps"`
		Processes   []struct {
			PID  int
			Name *string
			Used *uint64 `json:"used_bytes"`
		}
	}
	CUDA struct {
		Major, Minor int
		SMCount      uint64 `json:"sm_count"`
		ECC          bool   `json:"ecc_enabled"`
		Global       uint64 `json:"global_mem_bytes"`
		Const        uint64 `json:"const_mem_bytes"`
		Shared       uint64 `json:"shared_mem_per_sm_bytes"`
		L2           uint64 `json:"l2_bytes"`
		MemClock     uint64 `json:"mem_clock_khz"`
		BusWidth     uint64 `json:"mem_bus_width_bits"`
	}
	Fail map[string]string
}

type fixtureLink struct {
	A, B  int
	Peer  bool
	Level *int
}

// loadFixture reads a host of the golden data with a scenario laid over it.
func loadFixture(t *testing.T, dir, scenario string) *fixture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "fixture.json"))
	must.NoError(t, err)
	var f fixture
	must.NoError(t, json.Unmarshal(raw, &f))
	if scenario == "" {
		return &f
	}
	var tree any
	must.NoError(t, json.Unmarshal(raw, &tree))
	for _, s := range f.Scenarios {
		if s.Name != scenario {
			continue
		}
		for _, set := range s.Set {
			setAt(t, tree, strings.Split(set.At, "/")[1:], set.Value)
		}
		changed, err := json.Marshal(tree)
		must.NoError(t, err)
		var out fixture
		must.NoError(t, json.Unmarshal(changed, &out))
		return &out
	}
	t.Fatalf("fixture %q has no scenario %q", dir, scenario)
	return nil
}

// setAt puts a value at a JSON pointer.
func setAt(t *testing.T, node any, path []string, value any) {
	t.Helper()
	last := len(path) == 1
	switch n := node.(type) {
	case map[string]any:
		if last {
			n[path[0]] = value
			return
		}
		setAt(t, n[path[0]], path[1:], value)
	case []any:
		i, err := strconv.Atoi(path[0])
		must.NoError(t, err)
		if last {
			n[i] = value
			return
		}
		setAt(t, n[i], path[1:], value)
	default:
		t.Fatalf("nothing at %v", path)
	}
}

// fixtureHost is a host in memory made from a fixture.
type fixtureHost struct{ f *fixture }

func (h *fixtureHost) UVMTools() (bool, error) {
	if text := h.f.Fail.UVMToolsStat; text != "" {
		return false, errors.New(text)
	}
	return h.f.UVMTools, nil
}

func (h *fixtureHost) XIDs() map[string]map[uint64]uint64 { return nil }

func (h *fixtureHost) Inventory(context.Context) *gpuhost.Inventory {
	inv := &gpuhost.Inventory{Driver: gpuhost.Driver{
		Version: h.f.DriverVersion,
		CUDA:    gpuhost.CUDAVersion{Major: h.f.CUDAVersion / 1000, Minor: h.f.CUDAVersion % 1000 / 10},
	}}
	if text := h.f.Fail.DriverVersion; text != "" {
		inv.Driver.Version, inv.Driver.VersionErr = "", errors.New(text)
	}
	if text := h.f.Fail.CUDAVersion; text != "" {
		inv.Driver.CUDAErr = errors.New(text)
	}
	for i := range h.f.Devices {
		inv.GPUs = append(inv.GPUs, h.gpu(i))
	}
	return inv
}

func (h *fixtureHost) gpu(i int) gpuhost.GPU {
	n, c := &h.f.Devices[i].NVML, &h.f.Devices[i].CUDA
	g := gpuhost.GPU{
		Index: i, UUID: n.UUID, PCIBusID: n.PCIBusID, Minor: n.Minor,
		Model:                n.Name,
		Architecture:         architecture(c.Major),
		ComputeCapability:    &gpuhost.ComputeCapability{Major: c.Major, Minor: c.Minor},
		Cores:                new(c.SMCount * coresPerSM(c.Major)),
		PowerLimitMilliwatts: n.PowerLimit,
		MaxSMClockMHz:        n.MaxSM, MaxMemoryClockMHz: n.MaxMem,
		BAR1TotalBytes:    n.BAR1Total,
		PCIeMaxGeneration: n.PCIeGen, PCIeMaxWidth: n.PCIeWidth,
		ECCEnabled:          new(c.ECC),
		GlobalBytes:         new(c.Global),
		SharedPerSMBytes:    new(c.Shared),
		ConstantBytes:       new(c.Const),
		L2Bytes:             new(c.L2),
		MemoryBandwidthMBps: new(2 * (c.MemClock / 1000) * (c.BusWidth / 8)),
		Peers:               h.peers(i),
	}
	if n.PCIeGen != nil && n.PCIeWidth != nil {
		g.PCIeBandwidthMBps = new(*n.PCIeWidth * map[uint64]uint64{1: 250, 2: 500, 3: 985, 4: 1969}[*n.PCIeGen])
	}
	if n.NUMANode != nil {
		if node, err := strconv.Atoi(strings.TrimSpace(*n.NUMANode)); err == nil {
			g.NUMANode = &node
		}
	}
	return g
}

func architecture(major int) *string {
	name := map[int]string{3: "Kepler", 5: "Maxwell", 6: "Pascal"}[major]
	return &name
}

func coresPerSM(major int) uint64 { return map[int]uint64{3: 192, 5: 128, 6: 64}[major] }

func (h *fixtureHost) peers(i int) []gpuhost.Peer {
	links := map[int]gpuhost.Link{50: 1, 40: 2, 30: 3, 20: 4, 10: 5, 0: 6}
	var peers []gpuhost.Peer
	for _, l := range h.f.Topology {
		if !l.Peer || (l.A != i && l.B != i) {
			continue
		}
		p := gpuhost.Peer{PCIBusID: h.f.Devices[l.A+l.B-i].NVML.PCIBusID}
		if l.Level != nil {
			p.Link = links[*l.Level]
		}
		peers = append(peers, p)
	}
	return peers
}

func (h *fixtureHost) Readings(context.Context) *gpuhost.Readings {
	r := &gpuhost.Readings{}
	for i := range h.f.Devices {
		d := &h.f.Devices[i]
		if text, failing := d.Fail["power_usage"]; failing {
			r.GPUs = append(r.GPUs, gpuhost.Reading{UUID: d.NVML.UUID, Err: errors.New(text)})
			continue
		}
		r.GPUs = append(r.GPUs, reading(d))
	}
	return r
}

func reading(d *fixtureDevice) gpuhost.Reading {
	n := &d.NVML
	r := gpuhost.Reading{
		UUID: n.UUID, PowerMilliwatts: n.Power, TemperatureCelsius: n.Temperature,
		GPUPercent: n.UtilGPU, MemoryPercent: n.UtilMem, EncoderPercent: n.UtilEnc, DecoderPercent: n.UtilDec,
		MemoryUsedBytes: n.MemUsed, BAR1UsedBytes: n.BAR1Used,
		SMClockMHz: n.SM, MemoryClockMHz: n.Mem, PCIeRxKBps: n.RX, PCIeTxKBps: n.TX,
		ECCL1Errors: n.ECCL1, ECCL2Errors: n.ECCL2, ECCDeviceErrors: n.ECCMem,
	}
	for _, p := range n.Processes {
		if p.Name != nil {
			r.Processes = append(r.Processes, gpuhost.Process{PID: p.PID, Name: *p.Name, MemoryUsedBytes: p.Used})
		}
	}
	return r
}

func fixtureDir(name string) string { return filepath.Join("testdata", "golden", name) }

func (r *goldenRecord) String() string { return fmt.Sprintf("%s %s", r.Method, r.Target) }
