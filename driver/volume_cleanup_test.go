// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
)

// TestCleanVolumes: after driver upgrades only the volumes that a container of
// ours refers to stay, running or not.
func TestCleanVolumes(t *testing.T) {
	for _, tc := range []struct {
		name string
		mode string
		want []string
	}{
		{"bind mode", config.VolumeModeBind, []string{"470.57.02"}},
		{"the engine has records of its own", config.VolumeModePlugin, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			p, err := b.driver.ready()
			must.NoError(t, err)
			cfg := *p.config
			cfg.GPU.VolumeMode = tc.mode
			var pruned []string
			cleaned := &parts{
				config: &cfg, engine: b.engine,
				volumes: fakeVolumes{version: "535.104.05", earlier: []string{"450.80.02", "470.57.02"}, pruned: &pruned},
			}
			b.engine.put("stopped", map[string]string{
				container.LabelDriver: container.DriverName, container.LabelNVIDIADriver: "450.80.02",
			}, false, time.Now())
			b.driver.cleanVolumes(t.Context(), cleaned)
			must.Eq(t, tc.want, pruned)
		})
	}
}
