// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// The environment of the processes that the tests start: this test binary is
// also the wrapper, docker and sudo, by the name it is called with.
const (
	engineEnv  = "WRAPPER_TEST_ENGINE"  // file with a fakeEngine
	fixtureEnv = "WRAPPER_TEST_FIXTURE" // file with the host's fixture
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-docker":
		os.Exit(Run(context.Background(), Config{
			Program:  os.Args[0],
			Args:     os.Args[1:],
			Release:  "1.0.1",
			Getenv:   os.Getenv,
			Stdout:   os.Stdout,
			Stderr:   os.Stderr,
			OpenHost: func() (Host, error) { return openFixture(os.Getenv(fixtureEnv)) },
		}))
	case "docker", "sudo":
		e := loadEngine(os.Getenv(engineEnv))
		code := e.run(os.Args, os.Stdout, os.Stderr)
		e.save(os.Getenv(engineEnv))
		os.Exit(code)
	default:
		os.Exit(m.Run())
	}
}

// fakeEngine stands for docker: it answers the questions of the wrapper and
// notes any other command, together with its process id: that of the wrapper,
// if docker replaced it.
type fakeEngine struct {
	Images   map[string]map[string]string
	Pullable map[string]map[string]string
	Volumes  []string
	Exit     int

	Ran    []string // argv of the last command that is not a question
	RanPID int
}

func loadEngine(path string) *fakeEngine {
	raw, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	e := &fakeEngine{}
	if err := json.Unmarshal(raw, e); err != nil {
		panic(err)
	}
	return e
}

func (e *fakeEngine) save(path string) {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		panic(err)
	}
}

func (e *fakeEngine) run(argv []string, stdout, stderr io.Writer) int {
	args := slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return a == "sudo" || a == "docker" || a == "-D" })
	switch {
	case len(args) == 3 && args[0] == "inspect" && args[1] == "--type=image":
		return e.inspect(args[2], stdout, stderr)
	case len(args) == 2 && args[0] == "pull":
		return e.pull(args[1], stdout, stderr)
	case len(args) == 3 && args[0] == "volume" && args[1] == "inspect":
		if slices.Contains(e.Volumes, args[2]) {
			return 0
		}
		say(stderr, "Error: No such volume: %s\n", args[2])
		return 1
	default:
		e.Ran, e.RanPID = argv, os.Getpid()
		return e.Exit
	}
}

func (e *fakeEngine) inspect(image string, stdout, stderr io.Writer) int {
	labels, here := e.Images[image]
	if !here {
		say(stderr, "Error: No such image: %s\n", image)
		return 1
	}
	answer := []map[string]any{{"Config": map[string]any{"Labels": labels}}}
	if err := json.NewEncoder(stdout).Encode(answer); err != nil {
		panic(err)
	}
	return 0
}

func (e *fakeEngine) pull(image string, stdout, stderr io.Writer) int {
	labels, known := e.Pullable[image]
	if !known {
		say(stderr, "Error: image %s not found\n", image)
		return 1
	}
	e.Images[image] = labels
	say(stdout, "%s: Pulling from registry\n", image)
	return 0
}

// fixtureHost is this machine as a fixture of the golden data describes it.
type fixtureHost struct {
	DriverVersion string `json:"driver_version"`
	CUDA          int    `json:"cuda_driver_version"`
	UVMToolsNode  bool   `json:"uvm_tools"`
	Devices       []struct {
		NVML struct {
			UUID     string
			Minor    int
			PCIBusID string `json:"pci_bus_id"`
		}
	}
}

func openFixture(path string) (*fixtureHost, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := &fixtureHost{}
	return h, json.Unmarshal(raw, h)
}

func (h *fixtureHost) Close() {}

func (h *fixtureHost) UVMTools() (bool, error) { return h.UVMToolsNode, nil }

func (h *fixtureHost) XIDs() map[string]map[uint64]uint64 { return nil }

func (h *fixtureHost) ControlNodes() []gpuhost.DeviceNode { return nil }

func (h *fixtureHost) GPUNode(*gpuhost.GPU) (gpuhost.DeviceNode, error) {
	return gpuhost.DeviceNode{}, errors.New("no such node")
}

func (h *fixtureHost) Readings(context.Context) *gpuhost.Readings { return &gpuhost.Readings{} }

func (h *fixtureHost) Inventory(context.Context) *gpuhost.Inventory {
	inv := &gpuhost.Inventory{Driver: gpuhost.Driver{
		Version: h.DriverVersion,
		Library: "libnvidia-ml.so.1",
		CUDA:    gpuhost.CUDAVersion{Major: h.CUDA / 1000, Minor: h.CUDA % 1000 / 10},
	}}
	if h.DriverVersion == "" {
		inv.Driver.Library, inv.Reason = "", "libnvidia-ml.so.1 was not found"
	}
	for i, d := range h.Devices {
		inv.GPUs = append(inv.GPUs, gpuhost.GPU{Index: i, UUID: d.NVML.UUID, Minor: d.NVML.Minor, PCIBusID: d.NVML.PCIBusID})
	}
	return inv
}
