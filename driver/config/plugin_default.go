// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"runtime"
	"slices"
	"time"
)

// DefaultPlugin is what an absent plugin block means. The schema says the same;
// a test compares the two.
func DefaultPlugin() *Plugin {
	p := &Plugin{
		GC: GC{
			Image:          true,
			ImageDelayText: defaultImageDelay,
			ImageDelay:     3 * time.Minute,
			ImageScope:     ImageScopeAll,
			Container:      true,
			Dangling: Dangling{
				Enabled:           true,
				PeriodText:        defaultDanglingPeriod,
				Period:            5 * time.Minute,
				CreationGraceText: defaultCreationGrace,
				CreationGrace:     5 * time.Minute,
			},
		},
		AllowCaps:                 slices.Clone(defaultAllowCaps),
		NVIDIARuntime:             defaultNVIDIARuntime,
		AllowRuntimes:             slices.Clone(defaultAllowRuntimes),
		InfraImage:                DefaultInfraImage(runtime.GOARCH),
		InfraImagePullTimeoutText: defaultInfraImagePullTimeout,
		InfraImagePullTimeout:     5 * time.Minute,
		PullActivityTimeoutText:   defaultPullActivityTimeout,
		PullActivityTimeout:       2 * time.Minute,
		InitiateNetwork:           true,
		APITimeoutText:            defaultAPITimeout,
		APITimeout:                time.Minute,
		EngineDownGraceText:       defaultEngineDownGrace,
		EngineDownGrace:           5 * time.Minute,
		Logs:                      Logs{Collector: CollectorNomad, MaxFiles: defaultMaxFiles, MaxFileSizeMiB: defaultMaxFileSizeMiB},
		GPU:                       GPU{APIAddress: defaultAPIAddress, VolumeSocketDir: defaultVolumeSocketDir, AllowOverride: true},
	}
	p.Logging.fill()
	p.GPU.fill()
	return p
}
