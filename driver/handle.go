// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// handleVersion is the newest version of taskState that this build writes and reads.
const handleVersion = 1

// taskState is what Nomad keeps for us and gives back to RecoverTask, maybe to a
// newer build. It must tell all that a recovery needs: the task config that
// comes with it lacks devices, ports and the network namespace. Fields are only
// ever added; a change of meaning raises handleVersion.
type taskState struct {
	ContainerID string `codec:"container_id"`
	// Image is the reference as the job gives it, ImageID the engine's id.
	Image   string `codec:"image"`
	ImageID string `codec:"image_id"`
	// StartedAt is when StartTask ended, in ns since 1970.
	StartedAt int64 `codec:"started_at"`
	// GPUs are the reserved ids in reservation order, share suffixes included.
	GPUs []string `codec:"gpus"`
	// NVIDIADriver is the driver version that the task started with; empty without
	// GPUs.
	NVIDIADriver string `codec:"nvidia_driver"`
	// Foreign are the processes that were on the task's GPUs before it.
	Foreign []int `codec:"foreign"`
	// OnUnhealthy is the task option gpu.on_unhealthy.
	OnUnhealthy string `codec:"on_unhealthy"`
	// TTY: the log stream is raw.
	TTY bool `codec:"tty"`
	// CPUSetByUser: the job chose the CPUs itself (task-driver CP-4).
	CPUSetByUser bool `codec:"cpuset_by_user"`
	// NodeMHz is the node's CPU capacity; 0 when unknown (task-driver GR-11).
	NodeMHz float64 `codec:"node_mhz"`

	PortMap       map[string]int `codec:"port_map"`
	IP            string         `codec:"ip"`
	AutoAdvertise bool           `codec:"auto_advertise"`

	// LogsMaxFiles and LogsMaxFileSizeMiB are the limits of the log collector
	// "driver"; 0 means the plugin's.
	LogsMaxFiles       int `codec:"logs_max_files"`
	LogsMaxFileSizeMiB int `codec:"logs_max_file_size"`
}

// network is what Nomad is told about the task's address.
func (s *taskState) network() *drivers.DriverNetwork {
	return &drivers.DriverNetwork{PortMap: s.PortMap, IP: s.IP, AutoAdvertise: s.AutoAdvertise}
}

func (s *taskState) startedAt() time.Time { return time.Unix(0, s.StartedAt) }

// encodeHandle makes the handle of a running task.
func encodeHandle(cfg *drivers.TaskConfig, s *taskState) (*drivers.TaskHandle, error) {
	h := drivers.NewTaskHandle(handleVersion)
	h.Config = cfg
	h.State = drivers.TaskStateRunning
	if err := h.SetDriverState(s); err != nil {
		return nil, fmt.Errorf("failed to encode driver task state of %q: %w", cfg.ID, err)
	}
	return h, nil
}

// decodeHandle reads a handle of this or an older version (task-driver RC-6).
func decodeHandle(h *drivers.TaskHandle) (*taskState, error) {
	if h == nil || h.Config == nil {
		return nil, fmt.Errorf("failed to decode driver task state: the handle has no task config")
	}
	if h.Version > handleVersion {
		return nil, fmt.Errorf("failed to decode driver task state of %q: it has version %d and this build knows up to %d; install the newer gpu-docker again, or stop the allocation",
			h.Config.ID, h.Version, handleVersion)
	}
	var s taskState
	if err := h.GetDriverState(&s); err != nil {
		return nil, fmt.Errorf("failed to decode driver task state of %q: %w", h.Config.ID, err)
	}
	if s.ContainerID == "" {
		return nil, fmt.Errorf("failed to decode driver task state of %q: it names no container", h.Config.ID)
	}
	return &s, nil
}
