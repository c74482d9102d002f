// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// Profile is a simulated host as its JSON file describes it. The fixture.json
// files of nvidia-docker's golden data have the same form with fewer keys.
type Profile struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// DriverVersion of kernel module and libraries, "535.104.05".
	DriverVersion string `json:"driver_version"`
	// CUDADriverVersion is 1000·major + 10·minor.
	CUDADriverVersion int `json:"cuda_driver_version"`
	// NVMLVersion defaults to the CUDA major version and the driver version.
	NVMLVersion string `json:"nvml_version,omitempty"`
	// DriverLoaded says whether the kernel module is loaded at first; default true.
	DriverLoaded *bool `json:"driver_loaded,omitempty"`
	// OpenKernelModule: the kernel module is NVIDIA's open one.
	OpenKernelModule bool `json:"open_kernel_module,omitempty"`
	// UVMTools and Modeset say which optional control nodes exist.
	UVMTools bool `json:"uvm_tools"`
	Modeset  bool `json:"modeset,omitempty"`
	// MissingSymbols are NVML functions that the driver's library does not have.
	MissingSymbols []string `json:"missing_symbols,omitempty"`
	// WithoutFiles are names of libraries and tools that are not installed;
	// ${V} stands for the driver version.
	WithoutFiles []string `json:"without_files,omitempty"`
	// DriverFiles is the path of a list of driver files to install instead of those
	// that the driver's version has; relative to the profile's file.
	DriverFiles string `json:"driver_files,omitempty"`
	// Defaults hold for every device that does not say otherwise.
	Defaults Device   `json:"device_defaults,omitzero"`
	Devices  []Device `json:"devices"`
	// Topology tells about pairs of devices; TopologyDefault about the others.
	Topology        []Pair  `json:"topology"`
	TopologyDefault *Pair   `json:"topology_default,omitempty"`
	Faults          []Fault `json:"faults,omitempty"`
	// Fail names queries that fail: driver_version, cuda_version, uvm_tools_stat.
	Fail      map[string]string `json:"fail,omitempty"`
	Scenarios []Scenario        `json:"scenarios,omitempty"`
}

// Device is one GPU: what NVML and what CUDA tell about it. The keys are listed
// in the manual; null means not supported.
type Device struct {
	NVML map[string]any    `json:"nvml,omitempty"`
	CUDA map[string]any    `json:"cuda,omitempty"`
	Fail map[string]string `json:"fail,omitempty"` // {"power_usage": error text}
	// MIG are profiles of MIG devices, "1g.5gb"; they need mig_mode.
	MIG []string `json:"mig,omitempty"`
}

// UUIDs are those of the profile's GPUs, in NVML order.
func (p *Profile) UUIDs() []string {
	uuids := make([]string, len(p.Devices))
	for i, d := range p.Devices {
		uuids[i], _ = d.NVML["uuid"].(string)
	}
	return uuids
}

// Pair is what lies between two GPUs.
type Pair struct {
	A     int  `json:"a"`
	B     int  `json:"b"`
	Peer  bool `json:"peer"`  // CUDA peer access
	Level *int `json:"level"` // NVML's common ancestor; nil: not supported
}

// Fault is an NVML call that fails from the start.
type Fault struct {
	Call string `json:"call"`
	Code int    `json:"code"`
	GPU  *int   `json:"gpu,omitempty"` // nil: all
}

// Scenario is a variation of a profile: values put at JSON pointers.
type Scenario struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Set         []Setting `json:"set"`
}

// Setting is one change of a scenario.
type Setting struct {
	At    string `json:"at"`
	Value any    `json:"value"`
}

//go:embed profiles/*.json
var builtin embed.FS

// ErrUnknownProfile is wrapped by errors about a profile that does not exist.
var ErrUnknownProfile = errors.New("no such profile")

// Profiles are the built-in profiles by name.
func Profiles() ([]*Profile, error) {
	entries, err := builtin.ReadDir("profiles")
	if err != nil {
		return nil, err
	}
	var all []*Profile
	for _, e := range entries {
		p, err := LoadProfile(strings.TrimSuffix(e.Name(), ".json"), "")
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// LoadProfile reads a built-in profile by name, or a file if the name has a
// slash or ends in .json, and applies one of its scenarios unless that is empty.
func LoadProfile(name, scenario string) (*Profile, error) {
	text, err := readProfile(name)
	if err != nil {
		return nil, err
	}
	if scenario != "" {
		if text, err = applyScenario(text, scenario); err != nil {
			return nil, fmt.Errorf("profile %q: %w", name, err)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	p := new(Profile)
	if err := decoder.Decode(p); err != nil {
		return nil, fmt.Errorf("profile %q cannot be read: %w; the manual of simulated hosts lists the keys", name, err)
	}
	if p.DriverFiles != "" && !filepath.IsAbs(p.DriverFiles) {
		p.DriverFiles = filepath.Join(filepath.Dir(name), p.DriverFiles)
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("profile %q: %w", name, err)
	}
	return p, nil
}

// ProfileText is the file of a built-in profile, to copy and change.
func ProfileText(name string) ([]byte, error) { return readProfile(name) }

func readProfile(name string) ([]byte, error) {
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".json") {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("profile file %q: %w", name, err)
		}
		return text, nil
	}
	text, err := builtin.ReadFile(path.Join("profiles", name+".json"))
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w; use one of %s, or the path of a file", name, ErrUnknownProfile, strings.Join(profileNames(), ", "))
	}
	return text, nil
}

func profileNames() []string {
	entries, _ := builtin.ReadDir("profiles") // embedded: cannot fail
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

var versionForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)

// maxGPUs is the room that the libraries have.
const maxGPUs = 64

// validate reports all faults of a profile at once.
func (p *Profile) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !versionForm.MatchString(p.DriverVersion) {
		fault("driver_version %q must look like \"535.104.05\"", p.DriverVersion)
	}
	if len(p.Devices) > maxGPUs {
		fault("%d devices are too many; at most %d", len(p.Devices), maxGPUs)
	}
	if p.DriverFiles != "" {
		if _, err := readDriverList(p.DriverFiles, p.DriverVersion); err != nil {
			faults = append(faults, err)
		}
	}
	seen := map[string]int{}
	for i := range p.Devices {
		if _, err := p.deviceState(i); err != nil {
			faults = append(faults, err)
		}
		for _, key := range []string{"uuid", "pci_bus_id", "minor"} {
			value, _ := p.Devices[i].NVML[key]
			if value == nil {
				continue
			}
			mark := fmt.Sprintf("%s %v", key, value)
			if other, ok := seen[mark]; ok {
				fault("devices %d and %d have the same %s", other, i, mark)
			}
			seen[mark] = i
		}
	}
	for _, pair := range p.Topology {
		if pair.A < 0 || pair.B <= pair.A || pair.B >= len(p.Devices) {
			fault("topology of %d and %d: a must be smaller than b, and both must be devices", pair.A, pair.B)
		}
	}
	for _, s := range p.MissingSymbols {
		if len(callsNamed(s)) == 0 {
			fault("missing_symbols: %w", unknownCall(s))
		}
	}
	return errors.Join(faults...)
}
