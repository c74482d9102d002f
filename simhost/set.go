// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// friendly is a reading under the name and in the unit that people use.
type friendly struct {
	name string
	keys []string // of nvmlFacts
	unit unit
	doc  string
}

// unit is how a friendly value is written.
type unit int

const (
	plain  unit = iota
	watts       // 149, 149.5, 149W
	memory      // 1073741824, 1GiB, 512MiB
)

// friendlyKeys are the names of Set beside the keys of a profile.
var friendlyKeys = []friendly{
	{"temperature", []string{"temperature_c"}, plain, "°C"},
	{"utilization", []string{"util_gpu_pct"}, plain, "%"},
	{"memory_utilization", []string{"util_mem_pct"}, plain, "%"},
	{"encoder", []string{"util_enc_pct"}, plain, "%"},
	{"decoder", []string{"util_dec_pct"}, plain, "%"},
	{"memory", []string{"mem_used_bytes"}, memory, "used; 512MiB, 1.5GiB or bytes"},
	{"bar1", []string{"bar1_used_bytes"}, memory, "used; 512MiB, 1.5GiB or bytes"},
	{"power", []string{"power_usage_mw"}, watts, "W"},
	{"power_limit", []string{"power_limit_mw", "power_enforced_limit_mw"}, watts, "W"},
	{"clock", []string{"clock_sm_mhz", "clock_graphics_mhz"}, plain, "MHz"},
	{"memory_clock", []string{"clock_mem_mhz"}, plain, "MHz"},
	{"fan", []string{"fan_pct"}, plain, "%"},
	{"ecc", []string{"ecc_mem"}, plain, "uncorrected errors of device memory since the driver was loaded"},
	{"energy", []string{"energy_mj"}, plain, "mJ"},
}

// Set changes readings of a GPU: the friendly names above or the keys of a
// profile's "nvml" object, and "cuda." with the keys of its "cuda" object. The
// value "null" means that the GPU does not tell the reading. Further keys:
//
//	processes  "null", "none", PID:BYTES:NAME,… or the JSON of a profile
//	present    false: the GPU is gone, true: it is there again
//	mig        "off", "none" (on, without devices), or profiles "1g.5gb,2g.10gb"
//
// Either all changes are made, in one step, or none and the error names all
// wrong keys and values.
func (h *Host) Set(gpu int, values map[string]string) error {
	return changeState(h.root, func(s state) error {
		if err := s.checkGPU(gpu); err != nil {
			return err
		}
		prefix := fmt.Sprintf("gpu.%d.", gpu)
		device := s.device(prefix)
		var faults []error
		for _, key := range slices.Sorted(maps.Keys(values)) {
			faults = append(faults, device.set(key, values[key], driverBranch(s["driver_version"])))
		}
		if err := errors.Join(faults...); err != nil {
			return err
		}
		s.dropPrefix(prefix)
		for k, v := range device {
			s[prefix+k] = v
		}
		return h.kernelFollows(s, values)
	})
}

// device gives the keys of one GPU without their prefix.
func (s state) device(prefix string) state {
	device := state{}
	for k, v := range s {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			device[rest] = v
		}
	}
	return device
}

// kernelFollows renews device nodes after a change that they depend on.
func (h *Host) kernelFollows(s state, values map[string]string) error {
	_, present := values["present"]
	_, mig := values["mig"]
	if s["driver_loaded"] == "" || !present && !mig {
		return nil
	}
	p, err := h.Profile()
	if err != nil {
		return err
	}
	if !present {
		return capabilityFiles(h.root, s)
	}
	return errors.Join(removeKernelFiles(h.root), kernelFiles(h.root, p, s))
}

// set makes one change of a device.
func (s state) set(key, value string, branch int) error {
	switch key {
	case "processes":
		return s.setProcesses(value)
	case "present":
		return s.setPresent(value)
	case "mig":
		return s.setMIG(value, branch)
	}
	for _, f := range friendlyKeys {
		if f.name != key {
			continue
		}
		text, err := f.unit.parse(value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for _, k := range f.keys {
			if err := s.setFact(nvmlFacts, "", k, text); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	}
	if rest, ok := strings.CutPrefix(key, "cuda."); ok {
		return s.setFact(cudaFacts, "cuda.", rest, value)
	}
	return s.setFact(nvmlFacts, "", key, value)
}

func (s state) setFact(facts []fact, prefix, key, value string) error {
	f, ok := factByKey(facts, key)
	if !ok {
		return fmt.Errorf("there is no reading %q; use one of %s", prefix+key, strings.Join(SetKeys(), ", "))
	}
	if f.fixed {
		return fmt.Errorf("%s cannot be changed while the host is up; write a profile", key)
	}
	if value == "null" {
		delete(s, prefix+key)
		return nil
	}
	text, err := f.parse(value)
	if err != nil {
		return err
	}
	s[prefix+key] = text
	return nil
}

// SetKeys are all keys that Set knows, the friendly ones first.
func SetKeys() []string {
	keys := []string{"processes", "present", "mig"}
	for _, f := range friendlyKeys {
		keys = append(keys, f.name)
	}
	for _, f := range nvmlFacts {
		if !f.fixed {
			keys = append(keys, f.key)
		}
	}
	for _, f := range cudaFacts {
		keys = append(keys, "cuda."+f.key)
	}
	return keys
}

// parse turns a friendly value into that of the key below it.
func (u unit) parse(value string) (string, error) {
	if u == plain || value == "null" {
		return strings.TrimRight(value, "%"), nil
	}
	factor, number := 1.0, value
	suffixes := map[string]float64{"": 1000, "W": 1000, "mW": 1}
	if u == memory {
		suffixes = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	}
	if i := strings.LastIndexAny(value, "0123456789"); i >= 0 {
		var ok bool
		number = value[:i+1]
		if factor, ok = suffixes[value[i+1:]]; !ok {
			return "", fmt.Errorf("%q has an unknown unit; use one of %s", value, strings.Join(slices.Sorted(maps.Keys(suffixes)), " "))
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || n*factor >= math.MaxInt64 {
		return "", fmt.Errorf("%q is not a positive number with a unit", value)
	}
	return strconv.FormatInt(int64(math.Round(n*factor)), 10), nil
}

func (s state) setPresent(value string) error {
	text, err := fact{key: "present", kind: flagValue}.parse(value)
	if err != nil {
		return err
	}
	delete(s, "absent")
	if text == "0" {
		s["absent"] = "1"
	}
	return nil
}

func (s state) setMIG(value string, branch int) error {
	if s["mig_max"] == "" {
		return errors.New("mig: this GPU cannot be split; its profile has no mig_max")
	}
	generation, _ := strconv.Atoi(s["mig_generation"])
	s["mig_generation"] = strconv.Itoa(generation + 1)
	s["mig_mode"] = "1"
	switch value {
	case "off":
		s["mig_mode"] = "0"
		s.dropPrefix("mig.")
		return nil
	case "none", "":
		s.dropPrefix("mig.")
		return nil
	}
	return s.partition(strings.Split(value, ","), generation+1, branch)
}

// setProcesses reads the forms of Set.
func (s state) setProcesses(value string) error {
	switch {
	case value == "null":
		return s.putProcesses("", nil)
	case value == "none" || value == "":
		return s.putProcesses("", []Process{})
	case strings.HasPrefix(value, "["):
		var decoded any
		decoder := json.NewDecoder(strings.NewReader(value))
		decoder.UseNumber()
		if err := decoder.Decode(&decoded); err != nil {
			return fmt.Errorf("processes: %w", err)
		}
		return s.putProcesses("", decoded)
	}
	var processes []Process
	for _, one := range strings.Split(value, ",") {
		parts := strings.SplitN(one, ":", 3)
		pid, err := strconv.Atoi(parts[0])
		if err != nil || len(parts) != 3 {
			return fmt.Errorf("process %q does not look like \"PID:BYTES:NAME\", for example \"4711:512MiB:python\"", one)
		}
		used, err := memory.parse(parts[1])
		if err != nil {
			return fmt.Errorf("process %q: %w", one, err)
		}
		n, _ := strconv.ParseUint(used, 10, 64) // made by parse
		processes = append(processes, Process{PID: pid, Name: &parts[2], UsedBytes: &n})
	}
	return s.putProcesses("", processes)
}
