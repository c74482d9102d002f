// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/driver/config"
)

// startTold starts a task and returns the events that it left.
func (b *bench) startTold(cfg *drivers.TaskConfig) (told []string, err error) {
	b.t.Helper()
	events := b.driver.events.Subscribe(b.t.Context())
	_, _, err = b.StartTask(cfg)
	const end = "end of the test"
	b.driver.events.Emit(cfg, end, nil)
	for ev := range events {
		if ev.Message == end {
			break
		}
		told = append(told, ev.Message)
	}
	return told, err
}

// TestSwitchesOfTheCheck crosses the operator's switches with the job's, on an
// image that the driver does not support.
func TestSwitchesOfTheCheck(t *testing.T) {
	const (
		runs        = ""
		refused     = "needs CUDA 13.0; this node's driver 535.104.05 supports CUDA 12.2"
		weaker      = "is weaker than"
		notEnforced = `started all the same, because requirements = "warn"`
		disabled    = "is not checked against this node's driver, because NVIDIA_DISABLE_REQUIRE is set"
		ignored     = `is not checked against this node's driver, because the job sets requirements = "ignore"`
		noEffect    = "NVIDIA_DISABLE_REQUIRE has no effect, because this node's operator set allow_override = false"
	)
	for _, tc := range []struct {
		operator, task string
		locked         bool // allow_override = false
		disable        bool // NVIDIA_DISABLE_REQUIRE=1 in the job
		wantErr        string
		wantEvents     []string
	}{
		{operator: "enforce", wantErr: refused},
		{operator: "enforce", disable: true, wantEvents: []string{disabled}},
		{operator: "enforce", task: "enforce", wantErr: refused},
		{operator: "enforce", task: "warn", wantEvents: []string{notEnforced}},
		{operator: "enforce", task: "warn", disable: true, wantEvents: []string{disabled}},
		{operator: "enforce", task: "ignore", wantEvents: []string{ignored}},
		{operator: "enforce", locked: true, wantErr: refused},
		{operator: "enforce", locked: true, disable: true, wantErr: noEffect},
		{operator: "enforce", locked: true, task: "enforce", wantErr: refused},
		{operator: "enforce", locked: true, task: "warn", wantErr: weaker},
		{operator: "enforce", locked: true, task: "ignore", wantErr: weaker},
		{operator: "warn", wantEvents: []string{notEnforced}},
		{operator: "warn", disable: true, wantEvents: []string{disabled}},
		{operator: "warn", task: "enforce", wantErr: refused},
		{operator: "warn", task: "ignore", wantEvents: []string{ignored}},
		{operator: "warn", locked: true, wantEvents: []string{notEnforced}},
		{operator: "warn", locked: true, disable: true, wantEvents: []string{noEffect}},
		{operator: "warn", locked: true, task: "enforce", wantErr: refused},
		{operator: "warn", locked: true, task: "ignore", wantErr: weaker},
		{operator: "ignore"},
		{operator: "ignore", disable: true},
		{operator: "ignore", locked: true, task: "ignore"},
		{operator: "ignore", locked: true, task: "warn", wantEvents: []string{notEnforced}},
		{operator: "ignore", locked: true, task: "enforce", wantErr: refused},
	} {
		name := tc.operator + "," + tc.task
		if tc.locked {
			name += ",locked"
		}
		if tc.disable {
			name += ",disabled"
		}
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *config.Plugin) {
				o.GPU.Requirements, o.GPU.AllowOverride = tc.operator, !tc.locked
			})
			b.meta.md = compat.Metadata{Labels: map[string]string{compat.LabelCUDAVersion: "13.0"}}
			cfg := b.task(func(o *config.Task) { o.GPU.Requirements = tc.task }, "GPU-a")
			if tc.disable {
				cfg.Env[compat.EnvDisableRequire] = "1"
			}
			told, err := b.startTold(cfg)
			if tc.wantErr != runs {
				must.ErrorContains(t, err, tc.wantErr)
				must.False(t, structs.IsRecoverable(err))
				must.SliceEmpty(t, told)
				must.SliceEmpty(t, b.engine.names())
				return
			}
			must.NoError(t, err)
			must.Len(t, len(tc.wantEvents), told)
			for i, want := range tc.wantEvents {
				must.StrContains(t, told[i], want)
			}
		})
	}
}

// TestForbiddenOverrideAsksNobody: the job's fault shows before any question.
func TestForbiddenOverrideAsksNobody(t *testing.T) {
	b := newBench(t, func(o *config.Plugin) { o.GPU.AllowOverride = false })
	_, _, err := b.StartTask(b.task(func(o *config.Task) { o.GPU.Requirements = "warn" }, "GPU-a"))
	must.ErrorContains(t, err, "allow_override")
	must.SliceEmpty(t, b.meta.asked)
	must.Eq(t, 0, b.images.pulls)
}

// TestTagThatMoved: the registry tells of one image, the pull brings another.
func TestTagThatMoved(t *testing.T) {
	b := newBench(t, nil)
	b.meta.absent = true
	b.meta.md = compat.Metadata{Labels: map[string]string{compat.LabelCUDAVersion: "13.0"}}
	b.meta.remote = &compat.Metadata{Labels: map[string]string{compat.LabelCUDAVersion: "12.0"}}
	_, _, err := b.StartTask(b.task(nil, "GPU-a"))
	must.ErrorContains(t, err, "needs CUDA 13.0")
	must.Eq(t, 1, b.images.pulls)
	must.Eq(t, 0, b.engine.called("create"))
}

// TestWarnsOnce: what was said before the pull is not said again after it.
func TestWarnsOnce(t *testing.T) {
	for _, tc := range []struct {
		name     string
		noRemote error
	}{
		{"metadata before the pull", nil},
		{"metadata after the pull", errors.New("registry away")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.meta.absent, b.meta.noRemote = true, tc.noRemote
			b.meta.md = compat.Metadata{Env: map[string]string{compat.EnvCUDAVersion: "12.8", "NVIDIA_DISABLE_REQUIRES": "1"}}
			told, err := b.startTold(b.task(nil, "GPU-a"))
			must.NoError(t, err)
			must.Len(t, 2, told)
			must.StrContains(t, told[0], "minor-version compatibility")
			must.StrContains(t, told[1], "NVIDIA_DISABLE_REQUIRES has no effect")
		})
	}
}

// TestImageForGPUsWithoutOne: it starts, and the task is told.
func TestImageForGPUsWithoutOne(t *testing.T) {
	for _, tc := range []struct {
		name string
		md   compat.Metadata
		want string
	}{
		{"label", compat.Metadata{Labels: map[string]string{compat.LabelVolumesNeeded: "nvidia_driver"}}, compat.LabelVolumesNeeded},
		{"variable", compat.Metadata{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}}, "NVIDIA_VISIBLE_DEVICES"},
		{"requirement", compat.Metadata{Env: map[string]string{"NVIDIA_REQUIRE_DRIVER": "driver>=390"}}, "NVIDIA_REQUIRE_DRIVER"},
		{"nothing", compat.Metadata{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.meta.md = tc.md
			told, err := b.startTold(b.task(nil))
			must.NoError(t, err)
			if tc.want == "" {
				must.SliceEmpty(t, told)
				return
			}
			must.Len(t, 1, told)
			must.StrContains(t, told[0], "is made for GPUs ("+tc.want+")")
		})
	}
}

// TestWarningsBecomeEvents: what is remarkable about a container's request is told once,
// although the request is made twice (cases DRV-03, DRV-04, task-driver CX-1).
func TestWarningsBecomeEvents(t *testing.T) {
	for _, tc := range []struct {
		name   string
		plugin func(*config.Plugin)
		task   func(*config.Task)
		value  string // of NVIDIA_VISIBLE_DEVICES
		gpus   []string
		want   []string
	}{
		{
			name:   "a privileged task with a GPU",
			plugin: func(c *config.Plugin) { c.AllowPrivileged = true }, task: func(o *config.Task) { o.Privileged = true },
			gpus: []string{"GPU-a"}, want: []string{"a privileged task can use every GPU of this node, reserved or not"},
		},
		{
			name: "all GPUs without a reservation", value: "all",
			want: []string{`NVIDIA_VISIBLE_DEVICES="all" was ignored: the task holds no GPU; reserve one with a device block`},
		},
		{
			name: "all GPUs with a reservation", value: "all", gpus: []string{"GPU-a", "GPU-b"},
			want: []string{`NVIDIA_VISIBLE_DEVICES="all" was ignored: the task holds GPU-a,GPU-b`},
		},
		{
			name: "what is left out",
			task: func(o *config.Task) {
				o.Labels = config.StringMap{"com.hashicorp.nomad.alloc_id": "x"}
				o.DNSServers = []string{"nonsense"}
			},
			want: []string{
				`label "com.hashicorp.nomad.alloc_id" is reserved and was left out`,
				`dns_servers: "nonsense" was left out, because it is no IP address`,
			},
		},
		{name: "one of two", value: "GPU-b", gpus: []string{"GPU-a", "GPU-b"}},
		{name: "nothing remarkable", gpus: []string{"GPU-a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.plugin)
			cfg := b.task(tc.task, tc.gpus...)
			if tc.value != "" {
				cfg.Env[visibleDevices] = tc.value // as a template does
			}
			told, err := b.startTold(cfg)
			must.NoError(t, err)
			must.Eq(t, tc.want, told)
		})
	}
}

// TestCompatLibraries: they come before the driver's exactly when they help (CMP-06).
func TestCompatLibraries(t *testing.T) {
	image := map[string]string{compat.EnvCUDAVersion: "13.0", "NV_CUDA_COMPAT_PACKAGE": "cuda-compat-13-0"}
	for _, tc := range []struct{ name, brand, wantErr string }{
		{"a data-centre board", "tesla", ""},
		{"another board", "geforce", "needs CUDA 13.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.host.change(func(h *fakeHost) { h.inv.GPUs[0].Brand = &tc.brand })
			b.meta.md = compat.Metadata{Env: image}
			_, err := b.startTold(b.task(nil, "GPU-a"))
			if tc.wantErr != "" {
				must.ErrorContains(t, err, tc.wantErr)
				return
			}
			must.NoError(t, err)
			must.True(t, b.engineHas("LD_LIBRARY_PATH=/usr/local/cuda/compat:"))
		})
	}
}

// engineHas says whether a container has a variable that begins so.
func (b *bench) engineHas(variable string) bool {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	for _, c := range b.engine.containers {
		if slices.ContainsFunc(c.env, func(v string) bool { return strings.HasPrefix(v, variable) }) {
			return true
		}
	}
	return false
}
