// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"go.uber.org/goleak"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

func TestBeforeSetConfig(t *testing.T) {
	d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
	r, stop := dial(t, d)
	defer stop()
	info, err := r.PluginInfo()
	must.NoError(t, err)
	must.Eq(t, base.PluginTypeDriver, info.Type)
	must.Eq(t, []string{"v0.1.0"}, info.PluginApiVersions)
	must.Eq(t, "gpu-docker", info.Name)
	must.Eq(t, "0.0.1", info.PluginVersion)
	_, err = r.ConfigSchema()
	must.NoError(t, err)
	_, err = r.TaskConfigSchema()
	must.NoError(t, err)
	_, err = r.Capabilities()
	must.NoError(t, err)

	const want = "not configured yet"
	_, _, err = r.StartTask(&drivers.TaskConfig{ID: "x"})
	must.ErrorContains(t, err, want)
	_, err = d.Fingerprint(t.Context())
	must.ErrorContains(t, err, want)
	_, err = d.TaskEvents(t.Context())
	must.ErrorContains(t, err, want)
	must.ErrorContains(t, r.DestroyTask("x", true), want)
	_, _, err = r.networks.CreateNetwork("x", nil)
	must.ErrorContains(t, err, want)
	h := drivers.NewTaskHandle(1)
	h.Config = &drivers.TaskConfig{ID: "x"}
	must.NoError(t, h.SetDriverState(&taskState{ContainerID: "c"}))
	must.ErrorContains(t, r.RecoverTask(h), want)
}

// TestSetConfigLeavesNoTrace: it may run in a throw-away process beside a live
// plugin (task-driver PL-5).
func TestSetConfigLeavesNoTrace(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
	d.stateDir, d.runDir = filepath.Join(dir, "state"), filepath.Join(dir, "run")
	cfg := config.DefaultPlugin()
	cfg.Endpoint = "unix://" + filepath.Join(dir, "no-engine.sock")
	cfg.GPU.VolumesPath, cfg.GPU.VolumeSocketDir = filepath.Join(dir, "volumes"), filepath.Join(dir, "sockets")
	cfg.GPU.APIAddress = "127.0.0.1:0"
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	for range 2 {
		must.NoError(t, d.SetConfig(&base.Config{PluginConfig: data}))
	}
	left, err := os.ReadDir(dir)
	must.NoError(t, err)
	must.SliceEmpty(t, left)
	d.Shutdown()
}

func TestSetConfigRefusesBadOptions(t *testing.T) {
	d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
	cfg := config.DefaultPlugin()
	cfg.GC.ImageDelayText = "1d"
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	err := d.SetConfig(&base.Config{PluginConfig: data})
	must.ErrorContains(t, err, "failed to parse 'image_delay' duration")
	must.NoError(t, d.SetConfig(&base.Config{}), must.Sprint("no plugin block"))
	must.NoError(t, d.SetConfig(&base.Config{AgentConfig: &base.AgentConfig{}}))
}

func TestMissingCertificatesDoNotStopTheAgent(t *testing.T) {
	d := NewPlugin(hclog.NewNullLogger(), "0.0.1")
	d.stateDir = t.TempDir()
	cfg := config.DefaultPlugin()
	cfg.Endpoint, cfg.TLS.CA = "tcp://127.0.0.1:1", "/nowhere/ca.pem"
	cfg.GPU.APIAddress, cfg.GPU.VolumeSocketDir, cfg.GPU.VolumeMode = "", "", config.VolumeModeBind
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: data}))
	defer d.Shutdown()
	ch, err := d.Fingerprint(t.Context())
	must.NoError(t, err)
	fp := <-ch
	must.Eq(t, drivers.HealthStateUndetected, fp.Health)
	must.Eq(t, "Failed to initialize docker client", fp.HealthDescription)
	_, _, err = d.StartTask(&drivers.TaskConfig{ID: "x"})
	must.ErrorContains(t, err, "no connection to a Docker Engine")
}

func TestCapabilities(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*config.Plugin)
		network bool
		noLogs  bool
	}{
		{"defaults", nil, true, false},
		{"the driver writes the logs", func(c *config.Plugin) { c.Logs.Collector = config.CollectorDriver }, true, true},
		{"no logs", func(c *config.Plugin) { c.DisableLogCollection = true }, true, true},
		{"another driver's network", func(c *config.Plugin) { c.InitiateNetwork = false }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.change)
			caps, err := b.Capabilities() // through the boundary, which forgets fields (task-driver GR-1)
			must.NoError(t, err)
			must.True(t, caps.SendSignals)
			must.True(t, caps.Exec)
			must.Eq(t, drivers.FSIsolationImage, caps.FSIsolation)
			must.Eq(t, tc.network, caps.MustInitiateNetwork)
			must.Eq(t, tc.noLogs, caps.DisableLogCollection)
			must.Eq(t, []drivers.NetIsolationMode{"host", "group", "task"}, caps.NetIsolationModes)
		})
	}
}

func TestPanicsStayInOneCall(t *testing.T) {
	b := newBench(t, nil)
	p, err := b.driver.ready()
	must.NoError(t, err)
	p.meta = nil // any call of it panics
	_, _, err = b.StartTask(b.task(nil))
	must.ErrorContains(t, err, "internal error in driver gpu-docker")
	_, err = b.PluginInfo()
	must.NoError(t, err)
}

func TestFingerprint(t *testing.T) {
	first := func(b *bench) *drivers.Fingerprint {
		ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Second)
		defer cancel()
		ch, err := b.driver.Fingerprint(ctx)
		must.NoError(b.t, err)
		return <-ch
	}
	t.Run("healthy, with a driver", func(t *testing.T) {
		b := newBench(t, nil)
		fp := first(b)
		must.Eq(t, drivers.HealthStateHealthy, fp.Health)
		must.Eq(t, "Healthy", fp.HealthDescription)
		for name, want := range map[string]string{
			"version": "20.10.24", "os_type": "linux", "runtimes": "runc", "bridge_ip": "172.17.0.1",
			"nvidia_driver": "535.104.05", "cuda": "12.2", "gpus": "2", "volume": "nvidia_driver_535.104.05",
		} {
			text, ok := fp.Attributes[attrPrefix+name].GetString()
			must.True(t, ok, must.Sprint(name))
			must.Eq(t, want, text)
		}
	})
	t.Run("no NVIDIA driver", func(t *testing.T) {
		b := newBench(t, nil)
		b.host.inv.Driver.Version, b.host.inv.GPUs = "", nil
		fp := first(b)
		must.Eq(t, drivers.HealthStateHealthy, fp.Health)
		must.MapNotContainsKey(t, fp.Attributes, attrPrefix+"nvidia_driver")
	})
	t.Run("engine never seen", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.setAway(true)
		fp := first(b)
		must.Eq(t, drivers.HealthStateUndetected, fp.Health)
		must.Eq(t, "Failed to connect to docker daemon", fp.HealthDescription)
	})
	t.Run("engine lost and back", func(t *testing.T) {
		b := newBench(t, nil)
		first(b)
		b.engine.setAway(true)
		must.Eq(t, drivers.HealthStateUnhealthy, b.driver.probe(t.Context()).Health)
		b.engine.setAway(false)
		must.Eq(t, drivers.HealthStateHealthy, b.driver.probe(t.Context()).Health)
	})
	t.Run("an engine that is too old", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.version = types.Version{Version: "18", APIVersion: "1.39"}
		must.StrContains(t, first(b).HealthDescription, "speaks API 1.39, this driver needs 1.41")
	})
	const program = "/usr/bin/nvidia-container-runtime"
	for name, tc := range map[string]struct {
		info system.Info
		want string
	}{
		"the default runtime gives GPUs away": {
			system.Info{DefaultRuntime: "nvidia", Runtimes: map[string]system.RuntimeWithStatus{"nvidia": {}, "runc": {}}},
			`Healthy; isolation depends on other runtime settings: the engine's default runtime "nvidia" gives GPUs to containers of other drivers`,
		},
		"by the name of its program": {
			system.Info{DefaultRuntime: "gpu", Runtimes: map[string]system.RuntimeWithStatus{"gpu": {Runtime: system.Runtime{Path: program}}}},
			`Healthy; isolation depends on other runtime settings: the engine's default runtime "gpu" gives GPUs to containers of other drivers`,
		},
		"a runtime that is no default does": {
			system.Info{DefaultRuntime: "runc", Runtimes: map[string]system.RuntimeWithStatus{"runc": {}, "nvidia": {}, "gpu": {Runtime: system.Runtime{Path: program}}}},
			`Healthy; isolation depends on other runtime settings: the engine gives GPUs to containers of other drivers that name the runtime "gpu" or "nvidia"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.engine.info = tc.info
			must.Eq(t, tc.want, first(b).HealthDescription)
			id, _ := b.start(b.task(nil))
			want := ""
			if tc.info.DefaultRuntime != "runc" {
				want = "runc"
			}
			must.Eq(t, want, b.engine.containers[id].host.Runtime)
		})
	}
	t.Run("tasks with an old driver", func(t *testing.T) {
		b := newBench(t, nil)
		for i, version := range []string{"470.1", "470.1", "460.2", "", "535.104.05"} {
			b.driver.tasks.Put(newTask(t.Context(), &drivers.TaskConfig{ID: strconv.Itoa(i)}, &taskState{NVIDIADriver: version}))
		}
		must.Eq(t, "Healthy; 1 task uses old driver 460.2; 2 tasks use old driver 470.1; gpu-docker doctor lists them",
			b.driver.probe(t.Context()).HealthDescription)
		for _, task := range b.driver.tasks.All()[:3] {
			task.finish(&drivers.ExitResult{}, time.Now())
		}
		must.Eq(t, "Healthy", b.driver.probe(t.Context()).HealthDescription)
		for _, task := range b.driver.tasks.All() {
			b.driver.tasks.Forget(task.cfg.ID)
		}
	})
	t.Run("what disappears is emptied once it was sent", func(t *testing.T) {
		b := newBench(t, nil)
		sent := map[string]bool{}
		fp := b.driver.probe(t.Context())
		fp.retract(sent)
		_, isText := fp.Attributes[attrPrefix+"api"]
		must.False(t, isText, must.Sprint("never sent"))
		b.host.change(func(h *fakeHost) { h.inv.Driver.Version = "" })
		fp = b.driver.probe(t.Context())
		fp.retract(sent)
		text, _ := fp.Attributes[attrPrefix+"nvidia_driver"].GetString()
		must.Eq(t, "", text)
	})
	t.Run("what cannot be asked now is not gone", func(t *testing.T) {
		b := newBench(t, nil)
		sent := map[string]bool{}
		b.driver.probe(t.Context()).retract(sent)
		b.engine.fail("info", errAway)
		b.engine.fail("networks", errAway)
		fp := b.driver.probe(t.Context())
		fp.retract(sent)
		must.Eq(t, drivers.HealthStateHealthy, fp.Health)
		must.MapNotContainsKeys(t, fp.Attributes, []string{attrPrefix + "runtimes", attrPrefix + "bridge_ip"})
		b.engine.info.Runtimes = nil
		fp = b.driver.probe(t.Context())
		fp.retract(sent)
		text, told := fp.Attributes[attrPrefix+"runtimes"].GetString()
		must.True(t, told)
		must.Eq(t, "", text)
		must.MapContainsKey(t, fp.Attributes, attrPrefix+"bridge_ip")
	})
}
