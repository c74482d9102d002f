// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

// Mount types.
const (
	MountBind   = "bind"
	MountVolume = "volume"
	MountTmpfs  = "tmpfs"
)

var deviceKeys = keys{
	"host_path":          attr("host_path", "string"),
	"container_path":     attr("container_path", "string"),
	"cgroup_permissions": attr("cgroup_permissions", "string"),
}

// Device is one host device for a container.
type Device struct {
	HostPath          string `codec:"host_path"`
	ContainerPath     string `codec:"container_path"`     // empty: as HostPath
	CgroupPermissions string `codec:"cgroup_permissions"` // empty: rwm
}

var mountKeys = keys{
	"type":     attrOr("type", "string", `"`+MountVolume+`"`),
	"target":   attr("target", "string"),
	"source":   attr("source", "string"),
	"readonly": attrOr("readonly", "bool", "false"),
	"bind_options": optionalBlock("bind_options", keys{
		"propagation": attr("propagation", "string"),
	}),
	"tmpfs_options": optionalBlock("tmpfs_options", keys{
		"size": attr("size", "number"),
		"mode": attr("mode", "number"),
	}),
	"volume_options": optionalBlock("volume_options", keys{
		"no_copy": attrOr("no_copy", "bool", "false"),
		"subpath": attr("subpath", "string"),
		"labels":  attr("labels", stringMapType),
		"driver_config": optionalBlock("driver_config", keys{
			"name":    attr("name", "string"),
			"options": attr("options", stringMapType),
		}),
	}),
}

// Mount is one mount of a container.
type Mount struct {
	Type          string        `codec:"type"` // MountVolume when empty
	Target        string        `codec:"target"`
	Source        string        `codec:"source"`
	ReadOnly      bool          `codec:"readonly"`
	BindOptions   BindOptions   `codec:"bind_options"`
	TmpfsOptions  TmpfsOptions  `codec:"tmpfs_options"`
	VolumeOptions VolumeOptions `codec:"volume_options"`
}

// BindOptions are options of a bind mount.
type BindOptions struct {
	Propagation string `codec:"propagation"`
}

// TmpfsOptions are options of a tmpfs mount.
type TmpfsOptions struct {
	SizeBytes int64 `codec:"size"` // 0: the engine's default
	Mode      int64 `codec:"mode"` // 0: the engine's default
}

// VolumeOptions are options of a volume mount.
type VolumeOptions struct {
	NoCopy       bool         `codec:"no_copy"`
	Subpath      string       `codec:"subpath"` // needs engine API 1.45
	Labels       StringMap    `codec:"labels"`
	DriverConfig VolumeDriver `codec:"driver_config"`
}

// VolumeDriver names the driver that makes a volume that does not exist yet.
type VolumeDriver struct {
	Name    string    `codec:"name"`
	Options StringMap `codec:"options"`
}

// TaskAuth holds pull credentials; all empty means none.
type TaskAuth struct {
	Username      string `codec:"username"`
	Password      string `codec:"password"`
	Email         string `codec:"email"`
	ServerAddress string `codec:"server_address"`
}

// Healthchecks is about the image's own health check.
type Healthchecks struct {
	Disable bool `codec:"disable"`
}

var taskLoggingKeys = keys{
	"type":   attr("type", "string"),
	"driver": attr("driver", "string"),
	"config": attr("config", stringMapType),
}

// TaskLogging is the engine's log driver for one task. All empty means the plugin's.
type TaskLogging struct {
	Type   string    `codec:"type"`
	Driver string    `codec:"driver"` // another name of Type, which beats it
	Config StringMap `codec:"config"`
}
