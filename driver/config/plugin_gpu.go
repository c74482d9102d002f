// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"net"
	"strconv"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Accepted words and defaults of the block gpu.
const (
	// VolumeModePlugin mounts a named volume of the driver "nvidia-docker".
	VolumeModePlugin = "plugin"
	// VolumeModeBind bind-mounts the same directory; it needs no socket.
	VolumeModeBind = "bind"

	// RequirementsEnforce refuses images that this host cannot run.
	RequirementsEnforce = "enforce"
	// RequirementsWarn only reports them.
	RequirementsWarn = "warn"
	// RequirementsIgnore checks nothing.
	RequirementsIgnore = "ignore"

	// InjectionVolume passes device nodes and the driver volume.
	InjectionVolume = "volume"
	// InjectionCDI leaves nodes and libraries to the engine's CDI specifications.
	InjectionCDI = "cdi"
	// InjectionRuntime leaves them to the engine runtime of nvidia_runtime.
	InjectionRuntime = "runtime"

	defaultDriverRoot = "/"
	// A named volume whose socket nobody serves holds up the engine's start by
	// half a minute to a minute, at every boot (figures in docs/driver-volume.md).
	defaultVolumeMode      = VolumeModeBind
	defaultVolumesPath     = "/var/lib/nvidia-docker/volumes"
	defaultVolumeSocketDir = "/run/docker/plugins"
	defaultVolumeFiles     = "auto"
	defaultCapability      = "all"
	defaultAPIAddress      = "127.0.0.1:3476"
)

var (
	volumeModes       = []string{VolumeModePlugin, VolumeModeBind}
	volumeFiles       = []string{"auto", "link", "copy"}
	requirementModes  = []string{RequirementsEnforce, RequirementsWarn, RequirementsIgnore}
	injections        = []string{InjectionVolume, InjectionCDI, InjectionRuntime}
	knownCapabilities = []string{"all", "compute", "utility", "video", "graphics", "ngx", "compat32"}
)

var gpuKeys = keys{
	"driver_root":       attrOr("driver_root", "string", `"`+defaultDriverRoot+`"`),
	"nvml_library":      attrOr("nvml_library", "string", `""`),
	"volume_mode":       attrOr("volume_mode", "string", `"`+defaultVolumeMode+`"`),
	"volumes_path":      attrOr("volumes_path", "string", `"`+defaultVolumesPath+`"`),
	"volume_socket_dir": attrOr("volume_socket_dir", "string", `"`+defaultVolumeSocketDir+`"`),
	"volume_files":      attrOr("volume_files", "string", `"`+defaultVolumeFiles+`"`),
	"capabilities":      attrOr("capabilities", "list(string)", `["`+defaultCapability+`"]`),
	"api_address":       attrOr("api_address", "string", `"`+defaultAPIAddress+`"`),
	"job_mapping_dir":   attrOr("job_mapping_dir", "string", `""`),
	"inject_health":     attr("inject_health", "list(string)"),
	"health":            block("health", gpuHealthKeys),
	"requirements":      attrOr("requirements", "string", `"`+RequirementsEnforce+`"`),
	"allow_override":    attrOr("allow_override", "bool", "true"),
	"injection":         attrOr("injection", "string", `"`+InjectionVolume+`"`),
	"defaults":          block("defaults", gpuDefaultsKeys),
}

var gpuHealthKeys = keys{
	"xid_ignore": attr("xid_ignore", "list(string)"),
	"xid_fatal":  attr("xid_fatal", "list(string)"),
}

// GPU holds the NVIDIA options of the plugin.
type GPU struct {
	// DriverRoot is the root of the file system that holds the NVIDIA driver.
	DriverRoot string `codec:"driver_root"`
	// NVMLLibrary is the path of libnvidia-ml.so.1; empty means it is looked for
	// under DriverRoot.
	NVMLLibrary string `codec:"nvml_library"`
	// VolumeMode is VolumeModePlugin or VolumeModeBind.
	VolumeMode string `codec:"volume_mode"`
	// VolumesPath is the directory of the driver volumes.
	VolumesPath string `codec:"volumes_path"`
	// VolumeSocketDir is where the engine looks for volume plugins; empty serves
	// no volume plugin.
	VolumeSocketDir string `codec:"volume_socket_dir"`
	// VolumeFiles is "auto" (hard link, else reflink, else copy), "link" or "copy".
	VolumeFiles string `codec:"volume_files"`
	// Capabilities choose what the volume holds; "all" is everything.
	Capabilities []string `codec:"capabilities"`
	// APIAddress is host:port of the REST server; empty turns it off.
	APIAddress string `codec:"api_address"`
	// JobMappingDir gets a file for each GPU in use that names its allocations;
	// empty means none (cases MET-05).
	JobMappingDir string `codec:"job_mapping_dir"`
	// InjectHealth are XID events to play, "<GPU UUID>:<XID>" (gpuhost.Injection).
	InjectHealth []string `codec:"inject_health"`
	// Health says which XID events make a GPU unhealthy.
	Health GPUHealth `codec:"health"`
	// Requirements is RequirementsEnforce, RequirementsWarn or RequirementsIgnore.
	Requirements string `codec:"requirements"`
	// AllowOverride lets a job choose a weaker setting than Requirements.
	AllowOverride bool `codec:"allow_override"`
	// Injection is InjectionVolume, InjectionCDI or InjectionRuntime.
	Injection string `codec:"injection"`
	// Defaults hold for tasks with a GPU that say nothing else (cases DRV-29).
	Defaults GPUDefaults `codec:"defaults"`
}

// GPUHealth is the block gpu.health. It should say what the block health of the
// device plugin says: each plugin watches the GPUs itself.
type GPUHealth struct {
	// XIDIgnore are XIDs that do not change a GPU's health, or "all".
	XIDIgnore []string `codec:"xid_ignore"`
	// XIDFatal are XIDs that make a GPU unhealthy, or "all"; fatal beats ignore.
	XIDFatal []string `codec:"xid_fatal"`
}

// XIDRules are the rules of both lists; the built-in choice where neither says
// anything.
func (h *GPUHealth) XIDRules() (gpuhost.XIDRules, error) {
	return gpuhost.ParseXIDRules(h.XIDIgnore, h.XIDFatal)
}

// fill puts defaults in place of empty values. APIAddress and VolumeSocketDir
// have none, because the empty one turns the server off.
func (g *GPU) fill() {
	for _, d := range []struct {
		value     *string
		byDefault string
	}{
		{&g.DriverRoot, defaultDriverRoot},
		{&g.VolumeMode, defaultVolumeMode},
		{&g.VolumesPath, defaultVolumesPath},
		{&g.VolumeFiles, defaultVolumeFiles},
		{&g.Requirements, RequirementsEnforce},
		{&g.Injection, InjectionVolume},
	} {
		if *d.value == "" {
			*d.value = d.byDefault
		}
	}
	if g.Capabilities == nil {
		g.Capabilities = []string{defaultCapability}
	}
}

func (g *GPU) validate(f *faults) {
	g.fill()
	f.absolute("gpu.driver_root", g.DriverRoot, defaultDriverRoot)
	if g.NVMLLibrary != "" {
		f.absolute("gpu.nvml_library", g.NVMLLibrary, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
	}
	f.absolute("gpu.volumes_path", g.VolumesPath, defaultVolumesPath)
	if g.VolumeSocketDir != "" {
		f.absolute("gpu.volume_socket_dir", g.VolumeSocketDir, defaultVolumeSocketDir)
	}
	if g.JobMappingDir != "" {
		f.absolute("gpu.job_mapping_dir", g.JobMappingDir, "/run/gpu-docker-jobs")
	}
	f.oneOf("gpu.volume_mode", g.VolumeMode, volumeModes...)
	if g.VolumeMode == VolumeModePlugin && g.VolumeSocketDir == "" {
		f.add("gpu.volume_socket_dir", "must not be empty with volume_mode = \"plugin\"; use for example %q, or volume_mode = \"bind\"", defaultVolumeSocketDir)
	}
	f.oneOf("gpu.volume_files", g.VolumeFiles, volumeFiles...)
	f.oneOf("gpu.requirements", g.Requirements, requirementModes...)
	f.oneOf("gpu.injection", g.Injection, injections...)
	if len(g.Capabilities) == 0 {
		f.add("gpu.capabilities", "the list is empty; use some of %s", quotedList(knownCapabilities))
	}
	for _, c := range g.Capabilities {
		f.oneOf("gpu.capabilities", c, knownCapabilities...)
	}
	if _, err := gpuhost.ParseInjections(g.InjectHealth); err != nil {
		f.add("gpu.inject_health", "%v", err)
	}
	if _, err := g.Health.XIDRules(); err != nil {
		f.add("gpu.health", "%v; give XID numbers or \"all\"", err)
	}
	g.validateAddress(f)
	g.Defaults.validate(f)
}

func (g *GPU) validateAddress(f *faults) {
	if g.APIAddress == "" {
		return
	}
	_, port, err := net.SplitHostPort(g.APIAddress)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		f.add("gpu.api_address", "%q is not host:port: %v; use for example %q, or \"\" to turn the server off",
			g.APIAddress, err, defaultAPIAddress)
	}
}
