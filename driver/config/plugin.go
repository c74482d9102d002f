// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"
)

// pluginKeys is the order in which the manual lists the plugin options.
var pluginKeys = []string{
	"endpoint", "auth", "tls", "extra_labels", "logging", "gc", "volumes",
	"allow_privileged", "allow_caps", "nvidia_runtime", "allow_runtimes",
	"infra_image", "infra_image_pull_timeout", "pull_activity_timeout",
	"pids_limit", "disable_log_collection", "windows_allow_insecure_container_admin",
	"compat_labels", "initiate_network", "api_timeout", "engine_down_grace",
	"logs", "gpu",
}

// Defaults of the plugin options that stand in no block.
const (
	defaultNVIDIARuntime         = "nvidia"
	defaultInfraImagePullTimeout = "5m"
	defaultPullActivityTimeout   = "2m"
	defaultAPITimeout            = "1m"
	defaultEngineDownGrace       = "5m"

	minPullActivityTimeout = time.Minute
)

var (
	defaultAllowCaps = []string{
		"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod",
		"net_bind_service", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
	}
	defaultAllowRuntimes = []string{"runc", "nvidia"}
)

// DefaultInfraImage is the pause image for an architecture in Go's spelling.
func DefaultInfraImage(arch string) string {
	return fmt.Sprintf("registry.k8s.io/pause-%s:3.3", arch)
}

// PluginSpec is the schema of the plugin block's config.
var PluginSpec = hclspec.NewObject(pluginSchema)

var pluginSchema = keys{
	"endpoint": attr("endpoint", "string"),
	"auth": block("auth", keys{
		"config": attr("config", "string"),
		"helper": attr("helper", "string"),
	}),
	"tls": block("tls", keys{
		"cert": attr("cert", "string"),
		"key":  attr("key", "string"),
		"ca":   attr("ca", "string"),
	}),
	"extra_labels":             attr("extra_labels", "list(string)"),
	"logging":                  optionalBlock("logging", loggingKeys),
	"gc":                       block("gc", gcKeys),
	"volumes":                  block("volumes", volumesKeys),
	"allow_privileged":         attrOr("allow_privileged", "bool", "false"),
	"allow_caps":               attrOr("allow_caps", "list(string)", listLiteral(defaultAllowCaps)),
	"nvidia_runtime":           attrOr("nvidia_runtime", "string", `"`+defaultNVIDIARuntime+`"`),
	"allow_runtimes":           attrOr("allow_runtimes", "list(string)", listLiteral(defaultAllowRuntimes)),
	"infra_image":              attrOr("infra_image", "string", `"`+DefaultInfraImage(runtime.GOARCH)+`"`),
	"infra_image_pull_timeout": attrOr("infra_image_pull_timeout", "string", `"`+defaultInfraImagePullTimeout+`"`),
	"pull_activity_timeout":    attrOr("pull_activity_timeout", "string", `"`+defaultPullActivityTimeout+`"`),
	"pids_limit":               attrOr("pids_limit", "number", "0"),
	"disable_log_collection":   attrOr("disable_log_collection", "bool", "false"),
	"windows_allow_insecure_container_admin": attrOr(
		"windows_allow_insecure_container_admin", "bool", "false"),
	"compat_labels":     attrOr("compat_labels", "bool", "false"),
	"initiate_network":  attrOr("initiate_network", "bool", "true"),
	"api_timeout":       attrOr("api_timeout", "string", `"`+defaultAPITimeout+`"`),
	"engine_down_grace": attrOr("engine_down_grace", "string", `"`+defaultEngineDownGrace+`"`),
	"logs":              block("logs", logsKeys),
	"gpu":               block("gpu", gpuKeys),
}

// Plugin holds the options of the plugin block. It is read-only once validated.
type Plugin struct {
	// Endpoint is the engine's URL; empty means DOCKER_HOST and its companions,
	// then the default unix socket.
	Endpoint string `codec:"endpoint"`
	// Auth says where registry credentials come from.
	Auth Auth `codec:"auth"`
	// TLS holds the client certificate for Endpoint; unused without Endpoint.
	TLS TLS `codec:"tls"`
	// ExtraLabels are globs over the names of task facts that become labels.
	ExtraLabels []string `codec:"extra_labels"`
	// Logging is the engine's log driver for tasks that name none.
	Logging Logging `codec:"logging"`
	// GC says what the driver cleans up.
	GC GC `codec:"gc"`
	// Volumes says what tasks may mount.
	Volumes Volumes `codec:"volumes"`
	// AllowPrivileged permits privileged tasks and the host's namespaces.
	AllowPrivileged bool `codec:"allow_privileged"`
	// AllowCaps are the capabilities that tasks may have, lower case without "cap_".
	AllowCaps []string `codec:"allow_caps"`
	// NVIDIARuntime is the engine runtime for gpu.injection = "runtime".
	NVIDIARuntime string `codec:"nvidia_runtime"`
	// AllowRuntimes are the engine runtimes that tasks may name.
	AllowRuntimes []string `codec:"allow_runtimes"`
	// InfraImage is the image of the pause container of bridge groups.
	InfraImage string `codec:"infra_image"`

	InfraImagePullTimeoutText string `codec:"infra_image_pull_timeout"`
	// InfraImagePullTimeout limits a whole pull of InfraImage.
	InfraImagePullTimeout time.Duration `codec:"-"`

	PullActivityTimeoutText string `codec:"pull_activity_timeout"`
	// PullActivityTimeout is how long a pull may be silent, a minute or more.
	PullActivityTimeout time.Duration `codec:"-"`

	// PidsLimit is default and ceiling for the tasks' pids_limit; 0 means none.
	PidsLimit int64 `codec:"pids_limit"`
	// DisableLogCollection ships no task logs at all.
	DisableLogCollection bool `codec:"disable_log_collection"`
	// WindowsAllowInsecureContainerAdmin is accepted and has no effect on Linux.
	WindowsAllowInsecureContainerAdmin bool `codec:"windows_allow_insecure_container_admin"`
	// CompatLabels uses the built-in driver's container names and ownership label
	// (task-driver CX-3).
	CompatLabels bool `codec:"compat_labels"`
	// InitiateNetwork makes this driver create the network of bridge groups.
	InitiateNetwork bool `codec:"initiate_network"`

	APITimeoutText string `codec:"api_timeout"`
	// APITimeout limits ordinary engine calls; never pull, wait, stop, logs,
	// stats or exec.
	APITimeout time.Duration `codec:"-"`

	EngineDownGraceText string `codec:"engine_down_grace"`
	// EngineDownGrace is how long the engine may be away before its tasks count
	// as ended.
	EngineDownGrace time.Duration `codec:"-"`

	// Logs says who writes the task logs.
	Logs Logs `codec:"logs"`
	// GPU holds the NVIDIA options.
	GPU GPU `codec:"gpu"`
}

// Auth says where registry credentials come from.
type Auth struct {
	// Config is the path of a Docker config.json; empty means none.
	Config string `codec:"config"`
	// Helper is the suffix of a docker-credential-<suffix> program; empty means none.
	Helper string `codec:"helper"`
}

// TLS holds paths of PEM files; empty means not given.
type TLS struct {
	Cert string `codec:"cert"`
	Key  string `codec:"key"`
	CA   string `codec:"ca"`
}

// DecodePlugin decodes and validates the plugin block as Nomad sends it. No data
// means that there is no plugin block: the defaults.
func DecodePlugin(data []byte) (*Plugin, error) {
	if len(data) == 0 {
		return DefaultPlugin(), nil
	}
	p := &Plugin{}
	if err := base.MsgPackDecode(data, p); err != nil {
		return nil, fmt.Errorf("failed to decode plugin config: %w", err)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// Validate checks the options and fills in the parsed durations and the defaults
// that are empty. It reports every fault.
func (p *Plugin) Validate() error {
	f := &faults{where: "plugin config"}
	p.validateEndpoint(f)
	p.Logging.fill()
	p.GC.validate(f)
	p.normalCaps()
	p.InfraImage = strings.TrimPrefix(p.InfraImage, "https://")
	if p.InfraImage == "" {
		p.InfraImage = DefaultInfraImage(runtime.GOARCH)
	}
	p.InfraImagePullTimeout = f.positive("infra_image_pull_timeout", p.InfraImagePullTimeoutText, defaultInfraImagePullTimeout)
	p.PullActivityTimeout = f.atLeast("pull_activity_timeout", p.PullActivityTimeoutText, defaultPullActivityTimeout, minPullActivityTimeout)
	p.PidsLimit = max(p.PidsLimit, 0) // -1 is the engine's word for no limit
	p.APITimeout = f.positive("api_timeout", p.APITimeoutText, defaultAPITimeout)
	p.EngineDownGrace = f.positive("engine_down_grace", p.EngineDownGraceText, defaultEngineDownGrace)
	p.Logs.validate(f)
	p.GPU.validate(f)
	return f.err()
}

// normalCaps writes the capabilities the one way in which they are compared.
// Unknown names harm nobody and are kept; an empty one, as templates leave it, allows
// nothing.
func (p *Plugin) normalCaps() {
	normal := make([]string, 0, len(p.AllowCaps))
	for _, c := range p.AllowCaps {
		if name := NormalCapability(c); name != "" {
			normal = append(normal, name)
		}
	}
	if p.AllowCaps != nil {
		p.AllowCaps = normal
	}
}

// NormalCapability spells a capability in lower case without "cap_".
func NormalCapability(name string) string {
	return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "cap_")
}

// listLiteral writes strings as an HCL list.
func listLiteral(words []string) string { return "[" + quotedList(words) + "]" }
