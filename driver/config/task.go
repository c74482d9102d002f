// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"
)

// taskKeys is the order in which the manual lists the task options.
var taskKeys = []string{
	"image", "image_pull_timeout", "force_pull", "load", "auth", "auth_soft_fail", "os", "arch", "variant",
	"entrypoint", "command", "args", "work_dir", "hostname", "interactive", "tty", "init", "labels",
	"healthchecks", "readonly_rootfs",
	"privileged", "cap_add", "cap_drop", "security_opt", "apparmor_profile",
	"pid_mode", "uts_mode", "userns_mode", "ipc_mode", "cgroupns", "group_add", "runtime", "isolation",
	"cpu_hard_limit", "cpu_cfs_period", "cpuset_cpus", "memory_hard_limit", "memory_swap", "memory_swappiness",
	"oom_score_adj", "pids_limit", "shm_size", "storage_opt", "sysctl", "ulimit",
	"devices", "volumes", "volume_driver", "mount", "mounts", "tmpfs",
	"logging", "network_mode", "network_aliases", "ipv4_address", "ipv6_address", "mac_address",
	"dns_servers", "dns_search_domains", "dns_options", "extra_hosts", "ports", "port_map",
	"advertise_ipv6_address", "container_exists_attempts", "gpu", "logs",
}

// Defaults of the task options.
const (
	defaultImagePullTimeout  = "5m"
	defaultCPUCFSPeriod      = 100000 // microseconds
	maxCPUCFSPeriod          = 1000000
	maxHostname              = 64 // bytes, the kernel's limit
	defaultContainerAttempts = 5
)

// TaskSpec is the schema of a task's config block.
var TaskSpec = hclspec.NewObject(taskSchema)

var taskSchema = keys{
	"image":              attr("image", "string"),
	"image_pull_timeout": attrOr("image_pull_timeout", "string", `"`+defaultImagePullTimeout+`"`),
	"force_pull":         attrOr("force_pull", "bool", "false"),
	"load":               attr("load", "string"),
	"auth": optionalBlock("auth", keys{
		"username":       attr("username", "string"),
		"password":       attr("password", "string"),
		"email":          attr("email", "string"),
		"server_address": attr("server_address", "string"),
	}),
	"auth_soft_fail": attrOr("auth_soft_fail", "bool", "false"),
	"os":             attr("os", "string"),
	"arch":           attr("arch", "string"),
	"variant":        attr("variant", "string"),

	"entrypoint":      attr("entrypoint", "list(string)"),
	"command":         attr("command", "string"),
	"args":            attr("args", "list(string)"),
	"work_dir":        attr("work_dir", "string"),
	"hostname":        attr("hostname", "string"),
	"interactive":     attrOr("interactive", "bool", "false"),
	"tty":             attrOr("tty", "bool", "false"),
	"init":            attr("init", "bool"),
	"labels":          attr("labels", stringMapType),
	"healthchecks":    block("healthchecks", keys{"disable": attrOr("disable", "bool", "false")}),
	"readonly_rootfs": attrOr("readonly_rootfs", "bool", "false"),

	"privileged":       attrOr("privileged", "bool", "false"),
	"cap_add":          attr("cap_add", "list(string)"),
	"cap_drop":         attr("cap_drop", "list(string)"),
	"security_opt":     attr("security_opt", "list(string)"),
	"apparmor_profile": attr("apparmor_profile", "string"),
	"pid_mode":         attr("pid_mode", "string"),
	"uts_mode":         attr("uts_mode", "string"),
	"userns_mode":      attr("userns_mode", "string"),
	"ipc_mode":         attr("ipc_mode", "string"),
	"cgroupns":         attr("cgroupns", "string"),
	"group_add":        attr("group_add", "list(string)"),
	"runtime":          attr("runtime", "string"),
	"isolation":        attr("isolation", "string"),

	"cpu_hard_limit":    attrOr("cpu_hard_limit", "bool", "false"),
	"cpu_cfs_period":    attrOr("cpu_cfs_period", "number", "100000"),
	"cpuset_cpus":       attr("cpuset_cpus", "string"),
	"memory_hard_limit": attrOr("memory_hard_limit", "number", "0"),
	"memory_swap":       attr("memory_swap", "number"),
	"memory_swappiness": attr("memory_swappiness", "number"),
	"oom_score_adj":     attrOr("oom_score_adj", "number", "0"),
	"pids_limit":        attrOr("pids_limit", "number", "0"),
	"shm_size":          attrOr("shm_size", "number", "0"),
	"storage_opt":       hclspec.NewBlockAttrs("storage_opt", "string", false),
	"sysctl":            attr("sysctl", stringMapType),
	"ulimit":            attr("ulimit", stringMapType),

	"devices":       blockList("devices", deviceKeys),
	"volumes":       attr("volumes", "list(string)"),
	"volume_driver": attr("volume_driver", "string"),
	"mount":         blockList("mount", mountKeys),
	"mounts":        blockList("mounts", mountKeys),
	"tmpfs":         attr("tmpfs", "list(string)"),

	"logging":                   optionalBlock("logging", taskLoggingKeys),
	"network_mode":              attr("network_mode", "string"),
	"network_aliases":           attr("network_aliases", "list(string)"),
	"ipv4_address":              attr("ipv4_address", "string"),
	"ipv6_address":              attr("ipv6_address", "string"),
	"mac_address":               attr("mac_address", "string"),
	"dns_servers":               attr("dns_servers", "list(string)"),
	"dns_search_domains":        attr("dns_search_domains", "list(string)"),
	"dns_options":               attr("dns_options", "list(string)"),
	"extra_hosts":               attr("extra_hosts", "list(string)"),
	"ports":                     attr("ports", "list(string)"),
	"port_map":                  attr("port_map", numberMapType),
	"advertise_ipv6_address":    attrOr("advertise_ipv6_address", "bool", "false"),
	"container_exists_attempts": attrOr("container_exists_attempts", "number", "5"),
	"gpu":                       block("gpu", taskGPUKeys),
	"logs":                      block("logs", taskLogsKeys),
}

// Task holds the options of a task's config block. It is read-only once validated.
// An empty string, list or map means that the option is not given; so does 0
// where no other meaning is told.
type Task struct {
	Image                string `codec:"image"` // without "https://" once validated
	ImagePullTimeoutText string `codec:"image_pull_timeout"`
	// ImagePullTimeout limits the whole pull.
	ImagePullTimeout time.Duration `codec:"-"`
	// ForcePull asks the registry even if the engine has the image.
	ForcePull bool `codec:"force_pull"`
	// Load is an image archive: a path below the task's local directory. Empty means pull.
	Load string   `codec:"load"`
	Auth TaskAuth `codec:"auth"`
	// AuthSoftFail pulls anonymously when credentials cannot be looked up.
	AuthSoftFail bool `codec:"auth_soft_fail"`
	// OS, Arch and Variant choose the platform of pull and create, in the
	// registry's spelling; all empty means the engine's own.
	OS      string `codec:"os"`
	Arch    string `codec:"arch"`
	Variant string `codec:"variant"`

	Entrypoint  []string `codec:"entrypoint"`
	Command     string   `codec:"command"`
	Args        []string `codec:"args"`
	WorkDir     string   `codec:"work_dir"`
	Hostname    string   `codec:"hostname"`
	Interactive bool     `codec:"interactive"`
	TTY         bool     `codec:"tty"`
	// Init is nil when the option is not given: then the engine decides, or
	// gpu.defaults for a task with a GPU.
	Init           *bool        `codec:"init"`
	Labels         StringMap    `codec:"labels"`
	Healthchecks   Healthchecks `codec:"healthchecks"`
	ReadonlyRootfs bool         `codec:"readonly_rootfs"`

	Privileged bool `codec:"privileged"`
	// CapAdd and CapDrop name capabilities in any case, with or without "cap_".
	CapAdd          []string `codec:"cap_add"`
	CapDrop         []string `codec:"cap_drop"`
	SecurityOpt     []string `codec:"security_opt"`
	AppArmorProfile string   `codec:"apparmor_profile"`
	PidMode         string   `codec:"pid_mode"`
	UTSMode         string   `codec:"uts_mode"`
	UsernsMode      string   `codec:"userns_mode"`
	IPCMode         string   `codec:"ipc_mode"`
	CgroupNS        string   `codec:"cgroupns"`
	GroupAdd        []string `codec:"group_add"`
	Runtime         string   `codec:"runtime"`
	Isolation       string   `codec:"isolation"`

	CPUHardLimit bool `codec:"cpu_hard_limit"`
	// CPUCFSPeriod is in microseconds; 0 means the default.
	CPUCFSPeriod       int64  `codec:"cpu_cfs_period"`
	CpusetCPUs         string `codec:"cpuset_cpus"`
	MemoryHardLimitMiB int64  `codec:"memory_hard_limit"`
	// MemorySwapMiB is memory plus swap; -1 is no limit; nil means no swap.
	MemorySwapMiB *int64 `codec:"memory_swap"`
	// MemorySwappiness is 0 to 100; nil means 0.
	MemorySwappiness *int64            `codec:"memory_swappiness"`
	OOMScoreAdj      int               `codec:"oom_score_adj"`
	PidsLimit        int64             `codec:"pids_limit"`
	ShmSizeBytes     int64             `codec:"shm_size"`
	StorageOpt       map[string]string `codec:"storage_opt"`
	Sysctl           StringMap         `codec:"sysctl"`
	Ulimit           StringMap         `codec:"ulimit"` // see ParseUlimit

	Devices      []Device `codec:"devices"`
	Volumes      []string `codec:"volumes"`
	VolumeDriver string   `codec:"volume_driver"`
	Mount        []Mount  `codec:"mount"`
	Mounts       []Mount  `codec:"mounts"`
	// Tmpfs entries are "target[:options]".
	Tmpfs []string `codec:"tmpfs"`

	Logging          TaskLogging `codec:"logging"`
	NetworkMode      string      `codec:"network_mode"`
	NetworkAliases   []string    `codec:"network_aliases"`
	IPv4Address      string      `codec:"ipv4_address"`
	IPv6Address      string      `codec:"ipv6_address"`
	MacAddress       string      `codec:"mac_address"`
	DNSServers       []string    `codec:"dns_servers"`
	DNSSearchDomains []string    `codec:"dns_search_domains"`
	DNSOptions       []string    `codec:"dns_options"`
	ExtraHosts       []string    `codec:"extra_hosts"`
	Ports            []string    `codec:"ports"`
	PortMap          NumberMap   `codec:"port_map"`
	// AdvertiseIPv6Address advertises the container's global IPv6 address.
	AdvertiseIPv6Address bool `codec:"advertise_ipv6_address"`
	// ContainerExistsAttempts is how often a dead container of the same name is
	// removed and creation tried again.
	ContainerExistsAttempts int      `codec:"container_exists_attempts"`
	GPU                     TaskGPU  `codec:"gpu"`
	Logs                    TaskLogs `codec:"logs"`
}

// DecodeTask decodes and validates the config block of a task.
func DecodeTask(tc *drivers.TaskConfig) (*Task, error) {
	t := &Task{}
	if err := tc.DecodeDriverConfig(t); err != nil {
		return nil, fmt.Errorf("failed to decode driver config: %w", err)
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return t, nil
}
