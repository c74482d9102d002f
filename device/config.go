// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// The values of the options that are words.
const (
	groupByModel    = "model"
	groupByInstance = "instance"
	groupByNode     = "node"

	policyPacked      = "packed"
	policyDistributed = "distributed"

	migAuto = "auto"
	migOff  = "off"

	sharingNone = "none"
	sharingTime = "time-slicing"
	sharingMPS  = "mps"
)

// The defaults of the options.
const (
	defaultFingerprintPeriod = "1m"
	defaultDriverRoot        = "/"
	defaultReplicas          = 1
)

const (
	// minPeriod: NVML is never asked more often than once a second.
	minPeriod = time.Second
	// maxReplicas bounds the ids of one GPU; MPS serves 48 clients, and time
	// slices get too small long before.
	maxReplicas = 64
	// minPrefix is how many hex digits a shortened GPU id needs.
	minPrefix = 8
)

// configSpec is the schema of the plugin's config block.
var configSpec = hclspec.NewObject(map[string]*hclspec.Spec{
	"enabled": hclspec.NewDefault(
		hclspec.NewAttr("enabled", "bool", false), hclspec.NewLiteral("true")),
	"ignored_gpu_ids": hclspec.NewDefault(
		hclspec.NewAttr("ignored_gpu_ids", "list(string)", false), hclspec.NewLiteral("[]")),
	"fingerprint_period": hclspec.NewDefault(
		hclspec.NewAttr("fingerprint_period", "string", false), hclspec.NewLiteral(`"`+defaultFingerprintPeriod+`"`)),
	"driver_root": hclspec.NewDefault(
		hclspec.NewAttr("driver_root", "string", false), hclspec.NewLiteral(`"`+defaultDriverRoot+`"`)),
	"nvml_library": hclspec.NewAttr("nvml_library", "string", false),
	"group_by": hclspec.NewDefault(
		hclspec.NewAttr("group_by", "string", false), hclspec.NewLiteral(`"`+groupByModel+`"`)),
	"allocation_policy": hclspec.NewDefault(
		hclspec.NewAttr("allocation_policy", "string", false), hclspec.NewLiteral(`"`+policyPacked+`"`)),
	"mig": hclspec.NewDefault(
		hclspec.NewAttr("mig", "string", false), hclspec.NewLiteral(`"`+migAuto+`"`)),
	"sharing": hclspec.NewBlock("sharing", false, hclspec.NewObject(map[string]*hclspec.Spec{
		"strategy": hclspec.NewDefault(
			hclspec.NewAttr("strategy", "string", false), hclspec.NewLiteral(`"`+sharingNone+`"`)),
		"replicas": hclspec.NewDefault(
			hclspec.NewAttr("replicas", "number", false), hclspec.NewLiteral("1")),
		"rename_by_default": hclspec.NewDefault(
			hclspec.NewAttr("rename_by_default", "bool", false), hclspec.NewLiteral("false")),
		"fail_requests_greater_than_one": hclspec.NewDefault(
			hclspec.NewAttr("fail_requests_greater_than_one", "bool", false), hclspec.NewLiteral("false")),
	})),
	"inject_health": hclspec.NewAttr("inject_health", "list(string)", false),
	"health": hclspec.NewBlock("health", false, hclspec.NewObject(map[string]*hclspec.Spec{
		"xid_ignore": hclspec.NewAttr("xid_ignore", "list(string)", false),
		"xid_fatal":  hclspec.NewAttr("xid_fatal", "list(string)", false),
	})),
})

// Config is the plugin's config block.
type Config struct {
	// Enabled offers GPUs at all; default true.
	Enabled bool `codec:"enabled"`
	// IgnoredGPUIDs are UUIDs, or unique beginnings of them, of GPUs and MIG
	// devices that are not offered.
	IgnoredGPUIDs []string `codec:"ignored_gpu_ids"`
	// FingerprintPeriod is the time between two looks at the host; default 1m.
	FingerprintPeriod string `codec:"fingerprint_period"`
	// DriverRoot is where the driver is installed; default "/".
	DriverRoot string `codec:"driver_root"`
	// NVMLLibrary names libnvidia-ml.so.1 when it is somewhere else.
	NVMLLibrary string `codec:"nvml_library"`
	// GroupBy says what makes a device group: "model" (default), "instance" or
	// "node".
	GroupBy string `codec:"group_by"`
	// AllocationPolicy is the order of the instances of a group: "packed"
	// (default), those of one GPU together, or "distributed", in turns.
	AllocationPolicy string `codec:"allocation_policy"`
	// MIG says what is offered of a GPU in MIG mode: its MIG devices ("auto",
	// default), or nothing ("off").
	MIG string `codec:"mig"`
	// Sharing lets several tasks hold one GPU; nil means no sharing.
	Sharing *SharingConfig `codec:"sharing"`
	// InjectHealth are XID events to play, "<GPU UUID>:<XID>", to rehearse faults.
	InjectHealth []string `codec:"inject_health"`
	// Health says which events make a GPU unhealthy; nil means the built-in choice.
	Health *HealthConfig `codec:"health"`
}

// SharingConfig is the block "sharing".
type SharingConfig struct {
	// Strategy is "none" (default), "time-slicing" or "mps".
	Strategy string `codec:"strategy"`
	// Replicas is how many tasks may hold one GPU; default 1.
	Replicas int `codec:"replicas"`
	// RenameByDefault ends the names of the groups in ".shared", so that a job
	// that names a device gets a share only if it means one.
	RenameByDefault bool `codec:"rename_by_default"`
	// FailRequestsGreaterThanOne refuses a request for several shares, which may
	// be of one GPU.
	FailRequestsGreaterThanOne bool `codec:"fail_requests_greater_than_one"`
}

// HealthConfig is the block "health".
type HealthConfig struct {
	// XIDIgnore are XIDs that do not change a GPU's health, or "all".
	XIDIgnore []string `codec:"xid_ignore"`
	// XIDFatal are XIDs that make a GPU unhealthy, or "all"; fatal beats ignore.
	XIDFatal []string `codec:"xid_fatal"`
}

// settings are the options after validation.
type settings struct {
	Config
	period   time.Duration
	strategy string
	replicas int
	xid      gpuhost.XIDRules
	inject   []gpuhost.Injection
}

// defaultConfig is what an empty config block means.
func defaultConfig() Config {
	return Config{
		Enabled: true, FingerprintPeriod: defaultFingerprintPeriod, DriverRoot: defaultDriverRoot,
		GroupBy: groupByModel, AllocationPolicy: policyPacked, MIG: migAuto,
	}
}

// decodeConfig reads the options that Nomad sends; nothing means the defaults.
func decodeConfig(data []byte) (*settings, error) {
	config := defaultConfig()
	if len(data) > 0 {
		if err := base.MsgPackDecode(data, &config); err != nil {
			return nil, fmt.Errorf("plugin config: cannot be decoded: %w", err)
		}
	}
	return config.validate()
}

// validate checks all options and reports every fault with its place.
func (c *Config) validate() (*settings, error) {
	s := &settings{Config: *c, strategy: sharingNone, replicas: defaultReplicas}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("plugin config: "+format, args...))
	}
	for i, id := range c.IgnoredGPUIDs {
		if !longEnough(id) {
			fault("ignored_gpu_ids[%d] %q is too short; give a UUID or at least its first %d hex digits, as in \"GPU-fef8089b\"", i, id, minPrefix)
		}
	}
	var err error
	if s.period, err = time.ParseDuration(c.FingerprintPeriod); err != nil {
		fault("fingerprint_period %q is no duration; write for example \"1m\" or \"30s\"", c.FingerprintPeriod)
	} else if s.period < minPeriod {
		fault("fingerprint_period %q must be at least \"1s\"", c.FingerprintPeriod)
	}
	if !filepath.IsAbs(c.DriverRoot) {
		fault("driver_root %q must be an absolute path; use \"/\" for a driver installed on this machine", c.DriverRoot)
	}
	if c.NVMLLibrary != "" && !filepath.IsAbs(c.NVMLLibrary) {
		fault("nvml_library %q must be an absolute path; leave it out to have the library looked for", c.NVMLLibrary)
	}
	if c.GroupBy != groupByModel && c.GroupBy != groupByInstance && c.GroupBy != groupByNode {
		fault("group_by %q must be \"model\", \"instance\" or \"node\"", c.GroupBy)
	}
	if c.AllocationPolicy != policyPacked && c.AllocationPolicy != policyDistributed {
		fault("allocation_policy %q must be \"packed\" or \"distributed\"", c.AllocationPolicy)
	}
	if c.MIG != migAuto && c.MIG != migOff {
		fault("mig %q must be \"auto\" or \"off\"", c.MIG)
	}
	s.validateSharing(fault)
	if c.Health != nil {
		if s.xid, err = gpuhost.ParseXIDRules(c.Health.XIDIgnore, c.Health.XIDFatal); err != nil {
			fault("health.%w; give XID numbers or \"all\"", err)
		}
	}
	if s.inject, err = gpuhost.ParseInjections(c.InjectHealth); err != nil {
		fault("inject_health: %w", err)
	}
	return s, errors.Join(faults...)
}

func (s *settings) validateSharing(fault func(string, ...any)) {
	if s.Sharing == nil {
		return
	}
	s.strategy, s.replicas = s.Sharing.Strategy, s.Sharing.Replicas
	switch s.strategy {
	case sharingNone:
		if s.Sharing.RenameByDefault {
			fault("sharing.rename_by_default has no effect with sharing.strategy \"none\"; set strategy to \"time-slicing\" or \"mps\"")
		}
		if s.Sharing.FailRequestsGreaterThanOne {
			fault("sharing.fail_requests_greater_than_one has no effect with sharing.strategy \"none\"; set strategy to \"time-slicing\" or \"mps\"")
		}
		if s.replicas != defaultReplicas {
			fault("sharing.replicas %d has no effect with sharing.strategy \"none\"; set strategy to \"time-slicing\" or \"mps\", or replicas to 1", s.replicas)
		}
	case sharingTime, sharingMPS:
		if s.replicas < 2 || s.replicas > maxReplicas {
			fault("sharing.replicas %d must be 2 to %d with sharing.strategy %q", s.replicas, maxReplicas, s.strategy)
		}
	default:
		fault("sharing.strategy %q must be \"none\", \"time-slicing\" or \"mps\"", s.strategy)
	}
}

// shared says whether a GPU is given to several tasks.
func (s *settings) shared() bool { return s.strategy != sharingNone }

// longEnough says whether an id can be meant: shortened UUIDs need some digits,
// so that a slip does not hide half the node.
func longEnough(id string) bool {
	for _, scheme := range []string{"GPU-", "MIG-GPU-", "MIG-"} {
		if digits, found := strings.CutPrefix(id, scheme); found {
			return len(strings.ReplaceAll(digits, "-", "")) >= minPrefix
		}
	}
	return id != ""
}
