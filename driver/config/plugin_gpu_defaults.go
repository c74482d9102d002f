// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import "strings"

var gpuDefaultsKeys = keys{
	"shm_size": attrOr("shm_size", "number", "0"),
	"ulimit":   attr("ulimit", stringMapType),
	"ipc_mode": attr("ipc_mode", "string"),
	"init":     attrOr("init", "bool", "false"),
}

// GPUDefaults are task options for tasks that hold a GPU and do not set them.
type GPUDefaults struct {
	// ShmSizeBytes is the size of /dev/shm; 0 means the engine's default.
	ShmSizeBytes int64 `codec:"shm_size"`
	// Ulimit is like the task option; a task's own entry of the same name wins.
	Ulimit StringMap `codec:"ulimit"`
	// IPCMode is like the task option; set by the operator, it needs no privilege.
	IPCMode string `codec:"ipc_mode"`
	// Init runs the engine's init process as PID 1.
	Init bool `codec:"init"`
}

func (d *GPUDefaults) validate(f *faults) {
	if d.ShmSizeBytes < 0 {
		f.add("gpu.defaults.shm_size", "%d bytes must not be negative", d.ShmSizeBytes)
	}
	if strings.HasPrefix(d.IPCMode, "task:") || strings.HasPrefix(d.IPCMode, "container:") {
		f.add("gpu.defaults.ipc_mode", "%q names one container; use one of %s", d.IPCMode,
			quotedList([]string{"none", "private", "shareable", "host"}))
	}
	for _, name := range sortedKeys(d.Ulimit) {
		if _, err := ParseUlimit(name, d.Ulimit[name]); err != nil {
			f.add("gpu.defaults.ulimit", "%v", err)
		}
	}
}
