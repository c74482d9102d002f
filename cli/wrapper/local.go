// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"context"
	"errors"
	"slices"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// Host is what the wrapper asks of this machine's GPUs; *gpuhost.Host satisfies it.
type Host interface {
	Inventory(ctx context.Context) *gpuhost.Inventory
	UVMTools() (bool, error)
	ControlNodes() []gpuhost.DeviceNode
	GPUNode(*gpuhost.GPU) (gpuhost.DeviceNode, error)
	Close()
}

// errNoNVML is v1's text.
var errNoNVML = errors.New("could not load NVML library")

// localArguments are docker options for GPUs of this machine, in the order of
// v1's wrapper: devices, then volumes (nvidia-docker-v1 CL-8).
func (w *call) localArguments(ctx context.Context, labels map[string]string) ([]string, error) {
	host, err := w.cfg.OpenHost()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	inv := host.Inventory(ctx)
	if inv.Driver.Library == "" {
		w.log(inv.Reason)
		return nil, errNoNVML
	}
	if err := checkCUDA(labels, inv.Driver.CUDA.String()); err != nil {
		return nil, err
	}
	devices, err := w.localDevices(host, inv)
	if err != nil {
		return nil, err
	}
	version, err := restapi.DriverVersion(inv)
	if err != nil {
		return nil, err
	}
	return append(devices, w.localVolumes(ctx, labels, version)...), nil
}

func (w *call) localDevices(host Host, inv *gpuhost.Inventory) ([]string, error) {
	control, err := restapi.ControlDevices(host.UVMTools)
	if err != nil {
		return nil, err
	}
	gpus := inv.GPUs
	if ids := w.gpuIDs(); len(ids) > 0 {
		if gpus, err = restapi.SelectGPUs(inv.GPUs, ids); err != nil {
			return nil, err
		}
	}
	var out []string
	nodes := host.ControlNodes()
	for _, path := range control {
		out = append(out, deviceOption(controlNode(nodes, path)))
	}
	for i := range gpus {
		node, err := host.GPUNode(&gpus[i])
		if err != nil { // docker's own message names the missing node
			node = gpuhost.DeviceNode{HostPath: gpus[i].Path(), ContainerPath: gpus[i].Path()}
		}
		out = append(out, deviceOption(node))
	}
	return out, nil
}

// controlNode finds a control node under the driver root, else takes its plain path.
func controlNode(nodes []gpuhost.DeviceNode, path string) gpuhost.DeviceNode {
	for _, n := range nodes {
		if n.ContainerPath == path {
			return n
		}
	}
	return gpuhost.DeviceNode{HostPath: path, ContainerPath: path}
}

func deviceOption(n gpuhost.DeviceNode) string {
	if n.HostPath == n.ContainerPath {
		return "--device=" + n.ContainerPath
	}
	return "--device=" + n.HostPath + ":" + n.ContainerPath
}

// localVolumes skips names it does not know, and takes a name that comes twice once,
// as docker refuses two mounts at one place; a volume that docker knows already
// needs no driver option.
func (w *call) localVolumes(ctx context.Context, labels map[string]string, version string) []string {
	if !slices.Contains(volumesNeeded(labels), restapi.VolumeName) {
		return nil
	}
	var out []string
	if !w.docker.hasVolume(ctx, restapi.VolumeName+"_"+version) {
		out = append(out, "--volume-driver="+restapi.VolumeDriver)
	}
	return append(out, "--volume="+restapi.VolumeSpec(restapi.VolumeName, version))
}
