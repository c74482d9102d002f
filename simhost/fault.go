// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// AllGPUs as the number of a GPU means every call, whatever it is about.
const AllGPUs = -1

// Fail makes a function of the libraries answer with a return code, for calls
// about one GPU or AllGPUs; code 0 takes that back. A name without a version
// means all versions of the function, "_v1" the one without a number, "*" all of
// NVML.
func (h *Host) Fail(call string, code, gpu int) error {
	if code < 0 {
		return fmt.Errorf("return code %d is negative; NVML's codes are 0 (works again) to 999", code)
	}
	return h.inject("fail", call, code, gpu)
}

// Slow makes a function take at least so long, for calls about one GPU or
// AllGPUs; 0 takes that back and ends calls that wait. An hour is a hang.
func (h *Host) Slow(call string, d time.Duration, gpu int) error {
	if d < 0 {
		return fmt.Errorf("delay %s is negative", d)
	}
	return h.inject("slow", call, int(d.Milliseconds()), gpu)
}

// ClearFaults takes back all of Fail and Slow.
func (h *Host) ClearFaults() error {
	return changeState(h.root, func(s state) error {
		s.dropPrefix("fail.")
		s.dropPrefix("slow.")
		return nil
	})
}

func (h *Host) inject(kind, call string, value, gpu int) error {
	return changeState(h.root, func(s state) error {
		if gpu != AllGPUs {
			if err := s.checkGPU(gpu); err != nil {
				return err
			}
		}
		return s.inject(kind, call, value, gpu)
	})
}

func (s state) inject(kind, call string, value, gpu int) error {
	names := callsNamed(call)
	if len(names) == 0 {
		return unknownCall(call)
	}
	which := "all"
	if gpu != AllGPUs {
		which = strconv.Itoa(gpu)
	}
	for _, name := range names {
		key := strings.Join([]string{kind, name, which}, ".")
		if value == 0 {
			delete(s, key)
			continue
		}
		s[key] = strconv.Itoa(value)
	}
	return nil
}

func (s state) checkGPU(gpu int) error {
	total, _ := strconv.Atoi(s["gpus"])
	if gpu < 0 || gpu >= total {
		return fmt.Errorf("there is no GPU %d; the simulated host has %d, counted from 0", gpu, total)
	}
	return nil
}

// hostFailures are the queries that a profile's "fail" object can name.
var hostFailures = map[string][]string{
	"driver_version": {"nvmlSystemGetDriverVersion"},
	"cuda_version":   {"nvmlSystemGetCudaDriverVersion", "cuDriverGetVersion"},
}

// deviceFailures are those of a device's "fail" object.
var deviceFailures = map[string][]string{
	"power_usage": {"nvmlDeviceGetPowerUsage"},
}

func (p *Profile) addFaults(s state) error {
	for query, text := range p.Fail {
		calls, ok := hostFailures[query]
		if !ok && query != "uvm_tools_stat" {
			return fmt.Errorf("fail: no query %q; use driver_version, cuda_version or uvm_tools_stat", query)
		}
		for _, call := range calls {
			if err := s.inject("fail", call, errorCode(text), AllGPUs); err != nil {
				return err
			}
		}
	}
	for i, d := range p.Devices {
		for query, text := range d.Fail {
			calls, ok := deviceFailures[query]
			if !ok {
				return fmt.Errorf("device %d: fail: no query %q; use power_usage", i, query)
			}
			for _, call := range calls {
				if err := s.inject("fail", call, errorCode(text), i); err != nil {
					return err
				}
			}
		}
	}
	for _, f := range p.Faults {
		gpu := AllGPUs
		if f.GPU != nil {
			gpu = *f.GPU
		}
		if err := s.inject("fail", f.Call, f.Code, gpu); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
	}
	return nil
}

// errorCode finds the return code that NVML words so; 999, unknown, for others.
func errorCode(text string) int {
	text = strings.ToLower(strings.TrimPrefix(text, "nvml: "))
	for words, code := range map[string]int{"uninitialized": 1, "invalid argument": 2, "not supported": 3, "insufficient permissions": 4,
		"not found": 6, "driver not loaded": 9, "timeout": 10, "gpu is lost": 15, "gpu requires reset": 16, "driver/library version mismatch": 18} {
		if text == words {
			return code
		}
	}
	return 999
}
