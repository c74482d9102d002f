// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// gpuSite is a site on a simulated host with four GPUs and driver 352.39.
func gpuSite(t *testing.T, change func(*config.Plugin)) (*site, *simhost.Host, []string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "gpu-docker-driver-") // files of the volume are linked from here
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host, err := simhost.Up(t.Context(), simhost.Options{Root: filepath.Join(dir, "root"), Profile: "k80x4-352"})
	must.NoError(t, err)
	t.Cleanup(func() { _ = host.Down() })
	s := newSite(t, func(c *config.Plugin) {
		c.GPU.DriverRoot = host.Root()
		c.GPU.VolumesPath = filepath.Join(dir, "volumes")
		if change != nil {
			change(c)
		}
	})
	p, err := s.driver.configured()
	must.NoError(t, err)
	inv := p.host.Inventory(t.Context())
	must.Eq(t, "352.39", inv.Driver.Version, must.Sprint(inv.Reason))
	var uuids []string
	for _, g := range inv.GPUs {
		uuids = append(uuids, g.UUID)
	}
	must.Len(t, 4, uuids)
	return s, host, uuids
}

// reserve gives a task GPUs as Nomad does after the device plugin's Reserve.
func reserve(cfg *drivers.TaskConfig, ids ...string) {
	cfg.DeviceEnv = map[string]string{visibleDevices: strings.Join(ids, ",")}
	cfg.Env[visibleDevices] = cfg.DeviceEnv[visibleDevices]
}

// view prints what a task sees of GPUs.
const view = `
for n in /dev/nvidia*; do test -e "$n" && echo "node $n"; done
echo "visible $NVIDIA_VISIBLE_DEVICES"
test -r /usr/local/nvidia/lib64/libcuda.so.1 && echo "volume readable"
touch /usr/local/nvidia/bin/new 2>/dev/null && echo "volume writable"
echo done; sleep 60`

// inspect asks the engine about a task's container.
func (s *site) inspect(cfg *drivers.TaskConfig) engineapi.InspectResponse {
	s.t.Helper()
	tk, err := s.driver.tasks.Get(cfg.ID)
	must.NoError(s.t, err)
	found, err := docker(s.t).ContainerInspect(s.t.Context(), tk.state.ContainerID)
	must.NoError(s.t, err)
	return found
}

// log waits until a task has printed a word and returns all it printed.
func (s *site) log(cfg *drivers.TaskConfig, until string) string {
	s.t.Helper()
	s.waitLog(cfg, "stdout", until)
	text, err := os.ReadFile(filepath.Join(cfg.TaskDir().LogDir, cfg.Name+".stdout.0"))
	must.NoError(s.t, err)
	return string(text)
}

func TestEngineGPUs(t *testing.T) {
	s, _, uuids := gpuSite(t, nil)
	cfg := s.task(view, nil)
	reserve(cfg, uuids[2], uuids[0])
	s.start(cfg)

	printed := s.log(cfg, "done")
	must.StrContains(t, printed, "visible "+uuids[2]+","+uuids[0]+"\n")
	must.StrContains(t, printed, "volume readable")
	must.StrNotContains(t, printed, "volume writable")
	must.StrContains(t, printed, "node /dev/nvidia0\n")
	must.StrContains(t, printed, "node /dev/nvidia2\n")
	must.StrContains(t, printed, "node /dev/nvidiactl\n")
	must.StrNotContains(t, printed, "node /dev/nvidia1\n")
	must.StrNotContains(t, printed, "node /dev/nvidia3\n")

	found := s.inspect(cfg)
	must.Eq(t, uuids[2]+","+uuids[0], found.Config.Labels[container.LabelGPUs])
	must.Eq(t, "352.39", found.Config.Labels[container.LabelNVIDIADriver])
	for _, m := range found.Mounts {
		if m.Destination == "/usr/local/nvidia" {
			must.False(t, m.RW)
		}
	}
	must.Len(t, 2, s.driver.Allocations())

	t.Run("a GPU is never given twice", func(t *testing.T) {
		second := s.task("sleep 60", nil)
		reserve(second, uuids[0])
		_, _, err := s.StartTask(second)
		must.ErrorContains(t, err, "in use by task \"t\" of allocation "+cfg.AllocID)
		must.True(t, structs.IsRecoverable(err))
	})
	t.Run("nor by a driver that does not know the task", func(t *testing.T) {
		s.driver.gpus.Release(cfg.ID)
		second := s.task("sleep 60", nil)
		reserve(second, uuids[0])
		_, _, err := s.StartTask(second)
		must.ErrorContains(t, err, "in use by task")
		must.True(t, structs.IsRecoverable(err))
	})
	t.Run("after the end the GPU is free", func(t *testing.T) {
		must.NoError(t, s.StopTask(cfg.ID, 0, ""))
		s.wait(cfg.ID)
		must.NoError(t, s.DestroyTask(cfg.ID, false))
		must.Len(t, 0, s.driver.Allocations())
		second := s.task("true", nil)
		reserve(second, uuids[0])
		s.start(second)
		must.Eq(t, 0, s.wait(second.ID).ExitCode)
	})
}

func TestEngineNoReservationNoGPU(t *testing.T) {
	s, _, _ := gpuSite(t, nil)
	const greedy = "gpu-docker-driver-test:greedy"
	importImage(t, greedy, "ENV NVIDIA_VISIBLE_DEVICES=all", "LABEL com.nvidia.volumes.needed=nvidia_driver")
	events := s.listen()
	cfg := s.task(view, func(o *config.Task) { o.Image = greedy })
	s.start(cfg)
	printed := s.log(cfg, "done")
	must.StrContains(t, printed, "visible void\n")
	must.StrNotContains(t, printed, "node")
	must.StrNotContains(t, printed, "volume readable")
	must.StrContains(t, events.wait("reserved none"), "it sees no GPU")
}

func TestEngineRefusal(t *testing.T) {
	s, _, uuids := gpuSite(t, nil)
	const tooNew = "gpu-docker-driver-test:cuda80"
	importImage(t, tooNew, "LABEL com.nvidia.cuda.version=8.0")
	cfg := s.task("true", func(o *config.Task) { o.Image = tooNew })
	reserve(cfg, uuids[0])
	_, _, err := s.StartTask(cfg)
	must.ErrorContains(t, err, `image "`+tooNew+`" needs CUDA 8.0; this node's driver 352.39 supports CUDA 7.5`)
	must.False(t, structs.IsRecoverable(err))
	_, total := s.driver.refusals.Refusals()
	must.Eq(t, 1, total)

	t.Run("a weaker setting only warns", func(t *testing.T) {
		cfg := s.task("true", func(o *config.Task) { o.Image = tooNew; o.GPU.Requirements = config.RequirementsWarn })
		reserve(cfg, uuids[0])
		s.start(cfg)
		must.Eq(t, 0, s.wait(cfg.ID).ExitCode)
	})
}

func TestEngineGPUCount(t *testing.T) {
	s, _, _ := gpuSite(t, nil)
	one := 1
	cfg := s.task("true", func(o *config.Task) { o.GPU.Count = &one })
	_, _, err := s.StartTask(cfg)
	must.ErrorContains(t, err, "requested 1 GPU, got 0")
	must.True(t, structs.IsRecoverable(err))
}

func TestEngineVolumePlugin(t *testing.T) {
	sockets := t.TempDir()
	s, _, uuids := gpuSite(t, func(c *config.Plugin) {
		c.GPU.VolumeMode = config.VolumeModePlugin
		c.GPU.VolumeSocketDir = sockets
	})
	cfg := s.task("true", nil)
	reserve(cfg, uuids[0])
	p, err := s.driver.ready()
	must.NoError(t, err)
	p.server.Stop()
	_, _, err = s.StartTask(cfg)
	must.ErrorContains(t, err, "volume plugin not ready")
	must.True(t, structs.IsRecoverable(err))
}
