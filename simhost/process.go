// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Process is one process on a GPU.
type Process struct {
	PID int `json:"pid"`
	// Name is nil when the process is gone by the time its name is asked.
	Name *string `json:"name"`
	// UsedBytes is nil when the driver cannot tell it.
	UsedBytes *uint64 `json:"used_bytes"`
	// Type is "C", computes (the default), or "G", draws.
	Type string `json:"type,omitempty"`
	// The MIG instances that the process uses.
	GPUInstance     *int `json:"gpu_instance,omitempty"`
	ComputeInstance *int `json:"compute_instance,omitempty"`
}

// line is the process as the libraries read it.
func (p Process) line() (string, error) {
	kind := p.Type
	if kind == "" {
		kind = "C"
	}
	if kind != "C" && kind != "G" {
		return "", fmt.Errorf("process %d has type %q; use \"C\" or \"G\"", p.PID, p.Type)
	}
	if p.PID <= 0 {
		return "", fmt.Errorf("process id %d is not positive", p.PID)
	}
	name := ""
	if p.Name != nil {
		name = " " + *p.Name
	}
	if strings.ContainsAny(name, "\n\x00") {
		return "", fmt.Errorf("the name of process %d has more than one line", p.PID)
	}
	used := "-"
	if p.UsedBytes != nil {
		used = strconv.FormatUint(*p.UsedBytes, 10)
	}
	return fmt.Sprintf("%d %s %s %s %s%s", p.PID, used, kind, instance(p.GPUInstance), instance(p.ComputeInstance), name), nil
}

func instance(id *int) string {
	if id == nil {
		return "-"
	}
	return strconv.Itoa(*id)
}

// putProcesses sets the processes of the device whose keys begin with prefix,
// from a decoded JSON value; null means that the device does not tell them.
func (s state) putProcesses(prefix string, value any) error {
	s.dropPrefix(prefix + "process.")
	delete(s, prefix+"processes")
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("processes: %w", err)
	}
	var processes []Process
	if err := json.Unmarshal(text, &processes); err != nil {
		return fmt.Errorf("processes must look like [{\"pid\":1,\"name\":\"python\",\"used_bytes\":1048576}]: %w", err)
	}
	for i, p := range processes {
		line, err := p.line()
		if err != nil {
			return err
		}
		s[fmt.Sprintf("%sprocess.%d", prefix, i)] = line
	}
	s[prefix+"processes"] = strconv.Itoa(len(processes))
	return nil
}
