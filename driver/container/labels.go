// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/volume"
)

// DriverName is the task driver's name in jobs, labels and attributes.
const DriverName = "gpu-docker"

// Labels by which the driver knows its containers. Reaper and recovery look at
// these only (task-driver CX-1, CX-4).
const (
	LabelPrefix = "io.github.gpu-docker."

	LabelDriver   = LabelPrefix + "driver"
	LabelAllocID  = LabelPrefix + "alloc_id"
	LabelTaskName = LabelPrefix + "task_name"
	LabelTaskID   = LabelPrefix + "task_id"
	LabelNodeID   = LabelPrefix + "node_id"
	LabelSpecHash = LabelPrefix + "spec_hash"
	// LabelRole is RoleTask or RolePause.
	LabelRole = LabelPrefix + "role"
	// LabelGPUs lists the UUIDs of the reserved GPUs, comma separated; absent
	// without a GPU.
	LabelGPUs = LabelPrefix + "gpu_uuids"
	// LabelNVIDIADriver is the version of the NVIDIA driver the task started
	// with; absent without a GPU.
	LabelNVIDIADriver = volume.ContainerLabel

	RoleTask  = "task"
	RolePause = "pause"
)

// Labels of the built-in driver.
const (
	peerPrefix       = "com.hashicorp.nomad."
	peerLabelAllocID = peerPrefix + "alloc_id"
)

// labels are the user's, then the extra ones, then the driver's own.
func labels(in *Input) (map[string]string, findings) {
	all := make(map[string]string)
	var f findings
	for _, name := range slices.Sorted(maps.Keys(in.Options.Labels)) {
		if name == peerLabelAllocID || strings.HasPrefix(name, LabelPrefix) {
			f.warn("label %q is reserved and was left out", name)
			continue
		}
		all[name] = in.Options.Labels[name]
	}
	maps.Copy(all, extraLabels(in))
	maps.Copy(all, ownLabels(in))
	return all, f
}

// extraLabels are the task facts that the operator's globs choose.
func extraLabels(in *Input) map[string]string {
	chosen := make(map[string]string)
	for name, value := range taskFacts(in.Task) {
		for _, glob := range in.Plugin.ExtraLabels {
			if matchGlob(glob, name) {
				chosen[peerPrefix+name] = value
			}
		}
	}
	return chosen
}

// taskFacts are what extra_labels can choose from. A parent job is told only if
// there is one.
func taskFacts(task *drivers.TaskConfig) map[string]string {
	facts := map[string]string{
		"job_name":        task.JobName,
		"job_id":          task.JobID,
		"task_group_name": task.TaskGroupName,
		"task_name":       task.Name,
		"namespace":       task.Namespace,
		"node_name":       task.NodeName,
		"node_id":         task.NodeID,
	}
	if parent := parentJobID(task); parent != "" {
		facts["parent_job_id"] = parent
	}
	return facts
}

// parentJobID is the job of which this one is a run. Nomad does not send it to
// external plugins, but the id tells (task-driver GR-4).
func parentJobID(task *drivers.TaskConfig) string {
	if task.ParentJobID != "" {
		return task.ParentJobID
	}
	for _, mark := range []string{"/dispatch-", "/periodic-"} {
		if parent, _, found := strings.Cut(task.JobID, mark); found {
			return parent
		}
	}
	return ""
}

// matchGlob compares with "*" for any run of characters. A malformed pattern
// matches nothing.
func matchGlob(glob, name string) bool {
	matched, err := path.Match(glob, name)
	return err == nil && matched
}

func ownLabels(in *Input) map[string]string {
	own := map[string]string{
		LabelDriver:   DriverName,
		LabelRole:     RoleTask,
		LabelAllocID:  in.Task.AllocID,
		LabelTaskName: in.Task.Name,
		LabelTaskID:   in.Task.ID,
		LabelNodeID:   in.Task.NodeID,
	}
	if in.Plugin.CompatLabels {
		own[peerLabelAllocID] = in.Task.AllocID
	}
	if in.GPU != nil {
		own[LabelGPUs] = strings.Join(in.GPU.UUIDs, ",")
		if in.GPU.DriverVersion != "" {
			own[LabelNVIDIADriver] = in.GPU.DriverVersion
		}
	}
	return own
}
