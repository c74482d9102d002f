// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"testing"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/volume"
)

// TestCleanVolumes: after driver upgrades only the volumes that a container refers to
// stay, running or not, a task's or somebody else's (cases VOL-04).
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
				volumes: fakeVolumes{version: "535.104.05", earlier: []string{"367.57", "384.81", "450.80.02", "470.57.02"}, pruned: &pruned},
			}
			b.engine.put("by name", nil, false, time.Now()).mounts = []engineapi.MountPoint{{Name: "nvidia_driver_367.57"}}
			b.engine.put("by directory", nil, false, time.Now()).mounts = []engineapi.MountPoint{{Source: "/volumes/nvidia_driver/384.81/lib64"}}
			b.engine.put("stopped", map[string]string{
				container.LabelDriver: container.DriverName, container.LabelNVIDIADriver: "450.80.02",
			}, false, time.Now())
			b.driver.cleanVolumes(t.Context(), cleaned)
			must.Eq(t, tc.want, pruned)
		})
	}
}

// tellingVolumes gives tasks the earlier driver's volume, and sends the versions
// that Prune would remove.
type tellingVolumes struct {
	fakeVolumes
	removed chan string
}

func (v tellingVolumes) Ensure(context.Context) (*volume.Volume, error) {
	return &volume.Volume{Name: volume.Name(v.earlier[0]), Version: v.earlier[0]}, nil
}

func (v tellingVolumes) Prune(ctx context.Context, inUse func(string) bool) ([]volume.Volume, error) {
	for _, version := range v.earlier {
		if !inUse(version) {
			select {
			case v.removed <- version:
			case <-ctx.Done():
			}
		}
	}
	return nil, nil
}

// TestCleanVolumes_lastTask: the volume of an earlier driver goes with the last task
// that used it, and so does the warning in the driver's health (cases DRV-21).
func TestCleanVolumes_lastTask(t *testing.T) {
	b := newBench(t, func(c *config.Plugin) { c.GPU.VolumeMode = config.VolumeModeBind })
	p, err := b.driver.configured()
	must.NoError(t, err)
	volumes := tellingVolumes{fakeVolumes{version: "550.54.14", earlier: []string{"535.104.05"}}, make(chan string)}
	p.volumes = volumes
	old := b.task(nil, "GPU-a")
	b.start(old)

	b.host.change(func(h *fakeHost) { h.inv.Driver.Version = "550.54.14" })
	ctx, cancel := context.WithTimeout(t.Context(), fingerprintPeriod/2)
	defer cancel()
	fingerprints, err := b.driver.Fingerprint(ctx)
	must.NoError(t, err)
	must.StrContains(t, (<-fingerprints).HealthDescription, "1 task uses old driver 535.104.05")

	must.NoError(t, b.StopTask(old.ID, 0, ""))
	must.NoError(t, b.DestroyTask(old.ID, true))
	select {
	case version := <-volumes.removed:
		must.Eq(t, "535.104.05", version)
	case <-ctx.Done():
		t.Fatal("the earlier driver's volume was not removed")
	}
	must.Eq(t, "Healthy", (<-fingerprints).HealthDescription)
}
