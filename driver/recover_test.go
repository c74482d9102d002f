// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// TestRecoverFromAHungEngine: an agent recovers its tasks one after the other before it
// is up; a hung engine costs one whole limit only (task-driver PL-14).
func TestRecoverFromAHungEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine()
		p := &parts{engine: e}
		ask := func() (time.Duration, error) {
			begun := time.Now()
			_, err := p.inspectForRecovery(t.Context(), "c")
			return time.Since(begun), err
		}
		e.hung = true
		took, err := ask()
		must.ErrorIs(t, err, context.DeadlineExceeded)
		must.True(t, engineAway(err))
		must.Eq(t, recoverLimit, took)
		for range 100 {
			took, err = ask()
			must.True(t, engineAway(err))
			must.Eq(t, recoverGlance, took)
		}
		e.hung = false
		_, err = ask()
		must.ErrorIs(t, err, errNoSuch)
		e.hung = true
		took, _ = ask()
		must.Eq(t, recoverLimit, took, must.Sprint("an engine that answered is waited for"))
		time.Sleep(silenceFor)
		took, _ = ask()
		must.Eq(t, recoverLimit, took, must.Sprint("a silence is not held against it for long"))
	})
}

// TestRecoverBeforeTheCertificates: a task is not lost because the engine's client
// cannot be made yet, it is taken up when that is possible (task-driver FP-3, RC-4).
func TestRecoverBeforeTheCertificates(t *testing.T) {
	b := &bench{
		t: t, engine: newFakeEngine(), images: &fakeImages{uses: map[string][]string{}},
		host: twoGPUs(), meta: &fakeMeta{}, logs: &fakeLogs{}, allocs: t.TempDir(),
	}
	d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
	d.stateDir, b.driver, b.DriverPlugin = t.TempDir(), d, d
	var certificates atomic.Bool
	d.build = func(cfg *config.Plugin) (*parts, error) {
		p, err := b.parts(cfg)
		if !certificates.Load() {
			p.engine, p.engineErr = nil, errors.New("no such file: ca.pem")
		}
		return p, err
	}
	cfg := config.DefaultPlugin()
	cfg.GPU.APIAddress, cfg.GPU.VolumeSocketDir, cfg.GPU.VolumeMode = "", "", config.VolumeModeBind
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: data}))
	defer d.Shutdown()

	task := b.task(nil, "GPU-a")
	running := b.engine.put("c", nil, true, time.Now())
	handle, err := encodeHandle(task, &taskState{ContainerID: running.id, ImageID: "sha256:i", GPUs: []string{"GPU-a"}})
	must.NoError(t, err)
	must.NoError(t, d.RecoverTask(handle))
	must.NoError(t, d.RecoverTask(handle))
	status, err := d.InspectTask(task.ID)
	must.NoError(t, err)
	must.Eq(t, "reconnecting", status.DriverAttributes["state"])
	must.True(t, d.gpus.knows(task.ID))

	certificates.Store(true)
	must.Eq(t, drivers.HealthStateHealthy, d.probe(t.Context()).Health)
	must.Wait(t, wait.InitialSuccess(wait.Timeout(10*time.Second), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
		tk, err := d.tasks.Get(task.ID)
		return err == nil && tk.shipping() != nil && !tk.isReconnecting()
	})))
	must.Positive(t, b.images.inUse())
	b.engine.end(running.id, 3, false)
	must.Eq(t, 3, b.wait(task.ID).ExitCode)
}
