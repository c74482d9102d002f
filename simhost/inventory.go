// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// state is the profile as the libraries read it.
func (p *Profile) state() (state, error) {
	s := state{
		"driver_version":      p.DriverVersion,
		"nvml_version":        p.nvmlVersion(),
		"cuda_driver_version": strconv.Itoa(p.CUDADriverVersion),
		"gpus":                strconv.Itoa(len(p.Devices)),
	}
	if p.DriverLoaded == nil || *p.DriverLoaded {
		s["driver_loaded"] = "1"
	}
	for i := range p.Devices {
		device, err := p.deviceState(i)
		if err != nil {
			return nil, err
		}
		for k, v := range device {
			s[fmt.Sprintf("gpu.%d.%s", i, k)] = v
		}
	}
	p.addTopology(s)
	if err := p.addFaults(s); err != nil {
		return nil, err
	}
	s.markFaults()
	return s, nil
}

func (p *Profile) nvmlVersion() string {
	if p.NVMLVersion != "" {
		return p.NVMLVersion
	}
	return fmt.Sprintf("%d.%s", p.CUDADriverVersion/1000, p.DriverVersion)
}

// merged are the device's facts with the defaults of the profile below them.
func merged(defaults, own map[string]any) map[string]any {
	all := maps.Clone(defaults)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, own)
	return all
}

// deviceState gives the keys of one GPU, without "gpu.N." before them.
func (p *Profile) deviceState(i int) (state, error) {
	s := state{}
	var faults []error
	nvml := merged(p.Defaults.NVML, p.Devices[i].NVML)
	for key, value := range nvml {
		faults = append(faults, s.putFact(nvmlFacts, "", key, value))
	}
	cuda := merged(p.Defaults.CUDA, p.Devices[i].CUDA)
	for key, value := range cuda {
		faults = append(faults, s.putFact(cudaFacts, "cuda.", key, value))
	}
	s.derive(nvml)
	mig := p.Devices[i].MIG
	if mig == nil {
		mig = p.Defaults.MIG
	}
	if len(mig) > 0 {
		faults = append(faults, s.partition(mig, 0, driverBranch(p.DriverVersion)))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("device %d: %w", i, err)
	}
	return s, nil
}

func (s state) putFact(facts []fact, prefix, key string, value any) error {
	if key == "processes" && prefix == "" {
		return s.putProcesses("", value)
	}
	f, ok := factByKey(facts, key)
	if !ok {
		return fmt.Errorf("no key %q; the keys are %s", prefix+key, strings.Join(factKeys(facts), ", "))
	}
	if value == nil {
		delete(s, prefix+key)
		return nil
	}
	text, err := f.parseJSON(value)
	if err != nil {
		return err
	}
	s[prefix+key] = text
	return nil
}

func factKeys(facts []fact) []string {
	keys := make([]string, 0, len(facts))
	for _, f := range facts {
		keys = append(keys, f.key)
	}
	return keys
}

// derive fills what follows from other facts, where the profile leaves it open.
// A key that the profile sets to null stays unsupported.
func (s state) derive(told map[string]any) {
	for _, d := range []struct{ key, from string }{
		{"mem_total_bytes", "cuda.global_mem_bytes"},
		{"mem_bus_width_bits", "cuda.mem_bus_width_bits"},
		{"power_enforced_limit_mw", "power_limit_mw"},
		{"power_default_limit_mw", "power_limit_mw"},
		{"clock_graphics_mhz", "clock_sm_mhz"},
		{"clock_max_graphics_mhz", "clock_max_sm_mhz"},
		{"pcie_gen", "pcie_gen_max"},
		{"pcie_width", "pcie_width_max"},
	} {
		value, ok := s[d.from]
		if _, set := told[d.key]; !set && ok {
			s[d.key] = value
		}
	}
	s.deriveOpen(told, "compute_capability", s["cuda.major"] != "", s["cuda.major"]+"."+s["cuda.minor"])
	s.deriveOpen(told, "architecture", true, architectureOf(s["compute_capability"]))
	s.deriveOpen(told, "brand", true, brandOf(s["name"]))
	s.deriveOpen(told, "ecc_mode", s["ecc_mem"] != "" || s["cuda.ecc_enabled"] == "1", s["cuda.ecc_enabled"])
	s.deriveOpen(told, "event_types", true, "31")
	s.deriveOpen(told, "cuda.unified_addressing", true, "1")
}

func (s state) deriveOpen(told map[string]any, key string, known bool, value string) {
	if _, set := told[key]; !set && known && value != "" {
		s[key] = value
	}
}

// architectureOf is NVML's number of the chip generation of a compute capability.
func architectureOf(capability string) string {
	major, minor, _ := strings.Cut(capability, ".")
	name := map[string]string{"3": "kepler", "5": "maxwell", "6": "pascal", "7": "volta", "8": "ampere", "9": "hopper", "10": "blackwell", "12": "blackwell"}[major]
	switch {
	case major == "7" && minor == "5":
		name = "turing"
	case major == "8" && minor == "9":
		name = "ada"
	case name == "":
		return ""
	}
	return strconv.Itoa(architectures[name])
}

// brandOf is NVML's number of the product line of a model name.
func brandOf(model string) string {
	brand := "nvidia"
	for _, b := range []struct{ word, brand string }{{"Tesla", "tesla"}, {"GeForce RTX", "geforcertx"}, {"GeForce", "geforce"},
		{"Quadro RTX", "quadrortx"}, {"Quadro", "quadro"}, {"TITAN", "titan"}, {"NVIDIA RTX", "nvidiartx"}} {
		if strings.Contains(model, b.word) {
			brand = b.brand
			break
		}
	}
	return strconv.Itoa(brands[brand])
}

func (p *Profile) addTopology(s state) {
	put := func(a, b int, pair Pair) {
		if pair.Level != nil {
			s[fmt.Sprintf("topology.%d.%d.level", a, b)] = strconv.Itoa(*pair.Level)
		}
		if pair.Peer {
			s[fmt.Sprintf("topology.%d.%d.peer", a, b)] = "1"
		}
	}
	told := map[[2]int]bool{}
	for _, pair := range p.Topology {
		told[[2]int{pair.A, pair.B}] = true
		put(pair.A, pair.B, pair)
	}
	for a := range p.Devices {
		for b := a + 1; b < len(p.Devices) && p.TopologyDefault != nil; b++ {
			if !told[[2]int{a, b}] {
				put(a, b, *p.TopologyDefault)
			}
		}
	}
}
