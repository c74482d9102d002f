// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"
	"time"

	"github.com/hashicorp/nomad/plugins/shared/hclspec"
)

// Defaults of the blocks logging, gc and logs.
const (
	defaultLoggingType = "json-file"

	defaultImageDelay = "3m"
	// ImageScopeAll removes any image that no task of ours uses any more.
	ImageScopeAll = "all"
	// ImageScopeManaged removes only images that the driver itself pulled or loaded.
	ImageScopeManaged = "managed"

	defaultDanglingPeriod = "5m"
	defaultCreationGrace  = "5m"
	minCreationGrace      = time.Minute

	// CollectorNomad leaves task logs to Nomad's logmon.
	CollectorNomad = "nomad"
	// CollectorDriver makes the driver write the rotated log files itself.
	CollectorDriver = "driver"

	defaultMaxFiles       = 10
	defaultMaxFileSizeMiB = 10
)

// defaultLoggingConfig holds for json-file when no config block is given.
var defaultLoggingConfig = map[string]string{"max-file": "2", "max-size": "2m"}

var loggingKeys = keys{
	"type":   attr("type", "string"),
	"config": hclspec.NewBlockAttrs("config", "string", false),
}

// Logging is the engine's log driver for tasks that give neither type nor config.
type Logging struct {
	// Type is the log driver; default json-file.
	Type string `codec:"type"`
	// Config holds its options; by default two files of 2 MB with json-file, none
	// with another driver. A given block, even an empty one, replaces the default.
	Config map[string]string `codec:"config"`
}

// fill puts in the defaults. The rotation options fit json-file only, so they go
// with that type alone.
func (l *Logging) fill() {
	if l.Type == "" {
		l.Type = defaultLoggingType
	}
	if l.Config == nil && l.Type == defaultLoggingType {
		l.Config = maps.Clone(defaultLoggingConfig)
	}
}

var gcKeys = keys{
	"image":       attrOr("image", "bool", "true"),
	"image_delay": attrOr("image_delay", "string", `"`+defaultImageDelay+`"`),
	"image_scope": attrOr("image_scope", "string", `"`+ImageScopeAll+`"`),
	"container":   attrOr("container", "bool", "true"),
	"dangling_containers": block("dangling_containers", keys{
		"enabled":        attrOr("enabled", "bool", "true"),
		"period":         attrOr("period", "string", `"`+defaultDanglingPeriod+`"`),
		"creation_grace": attrOr("creation_grace", "string", `"`+defaultCreationGrace+`"`),
		"dry_run":        attrOr("dry_run", "bool", "false"),
	}),
}

// GC says what the driver cleans up.
type GC struct {
	// Image removes images that no task uses any more.
	Image          bool   `codec:"image"`
	ImageDelayText string `codec:"image_delay"`
	// ImageDelay is how long an image stays unused before it is removed.
	ImageDelay time.Duration `codec:"-"`
	// ImageScope is ImageScopeAll or ImageScopeManaged.
	ImageScope string `codec:"image_scope"`
	// Container removes a task's container when the task is destroyed.
	Container bool `codec:"container"`
	// Dangling configures the reaper.
	Dangling Dangling `codec:"dangling_containers"`
}

// Dangling configures the reaper of running containers that no task owns.
type Dangling struct {
	Enabled    bool   `codec:"enabled"`
	PeriodText string `codec:"period"`
	// Period is the time between two scans.
	Period            time.Duration `codec:"-"`
	CreationGraceText string        `codec:"creation_grace"`
	// CreationGrace is the age below which a container is left alone.
	CreationGrace time.Duration `codec:"-"`
	// DryRun only logs what would be removed.
	DryRun bool `codec:"dry_run"`
}

func (g *GC) validate(f *faults) {
	g.ImageDelay = f.duration("gc.image_delay", g.ImageDelayText, defaultImageDelay)
	if g.ImageDelay < 0 {
		f.add("gc.image_delay", "%q must not be negative; use \"0s\" to remove images at once", g.ImageDelayText)
	}
	if g.ImageScope == "" {
		g.ImageScope = ImageScopeAll
	}
	f.oneOf("gc.image_scope", g.ImageScope, ImageScopeAll, ImageScopeManaged)
	const dangling = "gc.dangling_containers."
	g.Dangling.Period = f.positive(dangling+"period", g.Dangling.PeriodText, defaultDanglingPeriod)
	g.Dangling.CreationGrace = f.atLeast(dangling+"creation_grace", g.Dangling.CreationGraceText, defaultCreationGrace, minCreationGrace)
}

var volumesKeys = keys{
	"enabled":      attrOr("enabled", "bool", "false"),
	"selinuxlabel": attr("selinuxlabel", "string"),
}

// Volumes says what tasks may mount.
type Volumes struct {
	// Enabled permits host paths outside the allocation, volume drivers and
	// volume mounts.
	Enabled bool `codec:"enabled"`
	// SELinuxLabel is added to each bind, "z" or "Z"; empty means none.
	SELinuxLabel string `codec:"selinuxlabel"`
}

var logsKeys = keys{
	"collector":     attrOr("collector", "string", `"`+CollectorNomad+`"`),
	"max_files":     attrOr("max_files", "number", "10"),
	"max_file_size": attrOr("max_file_size", "number", "10"),
}

// Logs says who writes the task logs. The limits hold for CollectorDriver only:
// with CollectorNomad the job's own logs block rules.
type Logs struct {
	// Collector is CollectorNomad or CollectorDriver.
	Collector string `codec:"collector"`
	// MaxFiles is the number of files kept for each of stdout and stderr.
	MaxFiles int `codec:"max_files"`
	// MaxFileSizeMiB is the size at which a file is rotated.
	MaxFileSizeMiB int `codec:"max_file_size"`
}

func (l *Logs) validate(f *faults) {
	if l.Collector == "" {
		l.Collector = CollectorNomad
	}
	f.oneOf("logs.collector", l.Collector, CollectorNomad, CollectorDriver)
	l.MaxFiles = atLeastOne(f, "logs.max_files", l.MaxFiles, defaultMaxFiles)
	l.MaxFileSizeMiB = atLeastOne(f, "logs.max_file_size", l.MaxFileSizeMiB, defaultMaxFileSizeMiB)
}

// atLeastOne returns the value, or the default when it is 0.
func atLeastOne(f *faults, option string, value, byDefault int) int {
	if value < 0 {
		f.add(option, "%d must be 1 or more", value)
	}
	if value == 0 {
		return byDefault
	}
	return value
}
