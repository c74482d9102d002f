// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// The names that clients of v1 know.
const (
	VolumeDriver     = "nvidia-docker"
	VolumeName       = "nvidia_driver"
	volumeMountPoint = "/usr/local/nvidia"
	volumeOptions    = "ro"
)

// DockerCLI is the answer of docker/cli: what docker needs to start a container
// with GPUs (nvidia-docker-v1 §6). The order of the fields is that of the JSON.
type DockerCLI struct {
	VolumeDriver string
	Volumes      []string // name_version:mountpoint:options
	Devices      []string // control devices first, then GPUs by index
}

// NewDockerCLI makes the answer. devices and volumes are what the client asked
// for, blank-separated; empty or "*" means all. It fails with a text for the
// client: a bad device or volume, an unreadable driver or control device.
func NewDockerCLI(inv *gpuhost.Inventory, uvmTools func() (bool, error), devices, volumes string) (*DockerCLI, error) {
	paths, err := ControlDevices(uvmTools)
	if err != nil {
		return nil, err
	}
	gpus := inv.GPUs
	if !all(devices) {
		if gpus, err = SelectGPUs(inv.GPUs, strings.Split(devices, " ")); err != nil {
			return nil, err
		}
	}
	for i := range gpus {
		paths = append(paths, gpus[i].Path())
	}
	names, err := selectVolumes(volumes)
	if err != nil {
		return nil, err
	}
	version, err := DriverVersion(inv)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = VolumeSpec(name, version)
	}
	return &DockerCLI{VolumeDriver: VolumeDriver, Volumes: names, Devices: paths}, nil
}

// VolumeSpec is the driver volume's mount in docker's notation.
func VolumeSpec(name, version string) string {
	return name + "_" + version + ":" + volumeMountPoint + ":" + volumeOptions
}

// ControlDevices are the control devices as v1 lists them: the first two
// without looking, the third if it exists (nvidia-docker-v1 DC-3).
func ControlDevices(uvmTools func() (bool, error)) ([]string, error) {
	paths := []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
	exists, err := uvmTools()
	if err != nil {
		return nil, err
	}
	if exists {
		paths = append(paths, "/dev/nvidia-uvm-tools")
	}
	return paths, nil
}

func all(list string) bool { return list == "" || list == "*" }

// selectVolumes picks volumes by bare name, each once (D3).
func selectVolumes(list string) ([]string, error) {
	if all(list) {
		return []string{VolumeName}, nil
	}
	var names []string
	for _, name := range strings.Split(list, " ") {
		if name != VolumeName {
			return nil, &InvalidVolumeError{Name: name}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// JSON renders the answer of docker/cli/json, with a newline at the end.
func (c *DockerCLI) JSON() ([]byte, error) { return compactJSON(c) }

// Text renders the answer of docker/cli: docker options in one line, without a
// newline at the end.
func (c *DockerCLI) Text() []byte {
	var out bytes.Buffer
	out.WriteString("--volume-driver=" + c.VolumeDriver)
	for _, v := range c.Volumes {
		out.WriteString(" --volume=" + v)
	}
	for _, d := range c.Devices {
		out.WriteString(" --device=" + d)
	}
	return out.Bytes()
}
