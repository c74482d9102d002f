// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/shoenig/test/must"
	"go.uber.org/goleak"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// TestNothingRunsAfterShutdown takes one task through all streams of the driver.
func TestNothingRunsAfterShutdown(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b := &bench{
		t: t, engine: newFakeEngine(), images: &fakeImages{uses: map[string][]string{}},
		host: twoGPUs(), meta: &fakeMeta{}, logs: &fakeLogs{}, allocs: t.TempDir(),
	}
	d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
	d.stateDir, d.build, b.driver, b.DriverPlugin = t.TempDir(), b.parts, d, d
	cfg := config.DefaultPlugin()
	cfg.GPU.APIAddress, cfg.GPU.VolumeSocketDir, cfg.GPU.VolumeMode = "127.0.0.1:0", "", config.VolumeModeBind
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: data}))

	ctx, cancel := context.WithCancel(t.Context())
	fingerprints, err := d.Fingerprint(ctx)
	must.NoError(t, err)
	<-fingerprints
	_, err = d.TaskEvents(ctx)
	must.NoError(t, err)
	first, second := b.task(nil, "GPU-a"), b.task(nil)
	b.start(first)
	b.start(second)
	_, err = d.TaskStats(ctx, first.ID, 0)
	must.NoError(t, err)
	_, err = d.WaitTask(ctx, second.ID)
	must.NoError(t, err)
	must.NoError(t, d.DestroyTask(first.ID, true))
	cancel()
	d.Shutdown() // the second task goes on without us
	must.Len(t, 1, b.engine.names())
}
