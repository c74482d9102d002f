// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

func TestEngineStats(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("while :; do :; done", nil)
	s.start(cfg)
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	samples, err := s.TaskStats(ctx, cfg.ID, time.Second)
	must.NoError(t, err)

	first := <-samples
	must.NotNil(t, first)
	must.Eq(t, 0, first.ResourceUsage.CpuStats.Percent)
	must.Greater(t, 0, first.ResourceUsage.MemoryStats.Usage)
	must.NotNil(t, first.ResourceUsage.MemoryStats.Measured)

	for u := range samples {
		if cpu := u.ResourceUsage.CpuStats; cpu.Percent > 0 {
			must.Between(t, cpu.Percent-0.01, cpu.SystemMode+cpu.UserMode, cpu.Percent+0.01)
			must.Greater(t, 0, cpu.TotalTicks)
			must.SliceContains(t, cpu.Measured, "Total Ticks")
			break
		}
	}
	must.NoError(t, ctx.Err(), must.Sprint("no sample with load"))
	must.NoError(t, s.StopTask(cfg.ID, 0, ""))
	s.wait(cfg.ID)
	for range samples { // it ends with the task
	}
	_, err = s.TaskStats(ctx, cfg.ID, time.Second)
	must.NoError(t, err, must.Sprint("the error comes with the stream"))
}

func TestEngineSignals(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("trap 'echo hup' HUP; trap 'exit 3' USR1; while :; do sleep 0.05; done", nil)
	s.start(cfg)
	eventually(t, testLimit, func() error { // until the traps are set
		return s.SignalTask(cfg.ID, "SIGHUP")
	})
	s.waitLog(cfg, "stdout", "hup\n")
	must.ErrorContains(t, s.SignalTask(cfg.ID, "SIGNONE"), "failed to parse signal")
	must.NoError(t, s.SignalTask(cfg.ID, "usr1"))
	must.Eq(t, 3, s.wait(cfg.ID).ExitCode)
	must.ErrorContains(t, s.SignalTask(cfg.ID, "SIGHUP"), "it has ended")
}

func TestEngineStopSignals(t *testing.T) {
	const show = `for n in TERM USR1 USR2; do trap "echo $n" $n; done; echo ready; while :; do sleep 0.05; done`
	const own = "gpu-docker-driver-test:stopsignal"
	s := newSite(t, nil)
	commitImage(t, own, &engineapi.Config{Image: testImage, Cmd: []string{"true"}, StopSignal: "USR1"})
	for _, tc := range []struct {
		name, image, signal string
		log                 string // up to the kill, which comes right after the last signal
		timeout             time.Duration
	}{
		{"the default signal, then the kill", testImage, "", "TERM\n", 3 * time.Second},
		{"the job's signal, then the default and the kill", testImage, "SIGUSR2", "USR2\n", 3 * time.Second},
		{"the image's signal, then the kill", own, "", "USR1\n", 3 * time.Second},
		{"the job's signal, then the image's and the kill", own, "SIGUSR2", "USR2\n", 3 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := s.task(show, func(o *config.Task) { o.Image = tc.image })
			s.start(cfg)
			s.waitLog(cfg, "stdout", "ready\n")
			begun := time.Now()
			must.NoError(t, s.StopTask(cfg.ID, tc.timeout, tc.signal))
			must.GreaterEq(t, tc.timeout, time.Since(begun))
			r := s.wait(cfg.ID)
			must.Eq(t, 137, r.ExitCode)
			must.False(t, r.OOMKilled)
			s.waitLog(cfg, "stdout", "ready\n"+tc.log)
			must.NoError(t, s.StopTask(cfg.ID, tc.timeout, tc.signal), must.Sprint("stopped is stopped"))
		})
	}
}

// commitImage makes an image that has what a container was given: an import takes
// only some of it.
func commitImage(t *testing.T, name string, config *engineapi.Config) {
	t.Helper()
	c := docker(t)
	made, err := c.ContainerCreate(t.Context(), config, nil, nil, nil, "")
	must.NoError(t, err)
	defer func() {
		must.NoError(t, c.ContainerRemove(t.Context(), made.ID, engineapi.RemoveOptions{}))
	}()
	_, err = c.ContainerCommit(t.Context(), made.ID, engineapi.CommitOptions{Reference: name})
	must.NoError(t, err)
}

func TestEngineOutOfMemory(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("tail /dev/zero", nil)
	cfg.Resources.NomadResources.Memory.MemoryMB = 16
	cfg.Resources.LinuxResources.MemoryLimitBytes = 16 << 20
	s.start(cfg)
	r := s.wait(cfg.ID)
	must.True(t, r.OOMKilled)
	must.EqError(t, r.Err, "OOM Killed")
}

func TestEngineInspect(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("sleep 1; exit 2", nil)
	s.start(cfg)
	status, err := s.InspectTask(cfg.ID)
	must.NoError(t, err)
	must.Eq(t, drivers.TaskStateRunning, status.State)
	must.Eq(t, s.inspect(cfg).ID, status.DriverAttributes["container_id"])
	must.False(t, status.StartedAt.IsZero())
	s.wait(cfg.ID)
	status, err = s.InspectTask(cfg.ID)
	must.NoError(t, err)
	must.Eq(t, drivers.TaskStateExited, status.State)
	must.Eq(t, 2, status.ExitResult.ExitCode)
	must.True(t, status.CompletedAt.After(status.StartedAt))
}

func TestEngineFingerprint(t *testing.T) {
	s := newSite(t, func(c *config.Plugin) { c.AllowPrivileged = true; c.PidsLimit = 99 })
	ch, err := s.Fingerprint(t.Context())
	must.NoError(t, err)
	fp := <-ch
	must.Eq(t, drivers.HealthStateHealthy, fp.Health)
	must.Eq(t, "Healthy", fp.HealthDescription)
	names := []string{}
	for name := range fp.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, want := range []string{
		"driver.gpu-docker", "driver.gpu-docker.os_type", "driver.gpu-docker.pids.limit",
		"driver.gpu-docker.privileged.enabled", "driver.gpu-docker.runtimes", "driver.gpu-docker.version",
	} {
		must.SliceContains(t, names, want)
	}
	must.SliceNotContains(t, names, "driver.gpu-docker.nvidia_driver")
	must.SliceNotContains(t, names, "driver.gpu-docker.volumes.enabled")
}

func TestEngineNetwork(t *testing.T) {
	s := newSite(t, func(c *config.Plugin) { c.InfraImage = testImage + "-pause" })
	importImage(t, testImage+"-pause", `ENTRYPOINT ["/bin/sleep","3600"]`)
	cfg := s.task("sleep 60", nil)
	spec, created, err := s.driver.CreateNetwork(cfg.AllocID, &drivers.NetworkCreateRequest{Hostname: "host-a"})
	must.NoError(t, err)
	must.True(t, created)
	must.Eq(t, drivers.NetIsolationModeGroup, spec.Mode)
	must.NotEq(t, "", spec.Path)
	must.Eq(t, "host-a", spec.Labels[hostnameLabel])

	again := func(t *testing.T, toConfigure bool) {
		t.Helper()
		again, created, err := s.networks.CreateNetwork(cfg.AllocID, nil)
		must.NoError(t, err)
		must.Eq(t, toConfigure, created)
		must.Eq(t, spec.Labels[sandboxLabel], again.Labels[sandboxLabel])
	}
	t.Run("again it is the same, still to be configured", func(t *testing.T) { again(t, true) })
	t.Run("again it is the same, configured", func(t *testing.T) {
		pause, err := docker(t).ContainerInspect(t.Context(), spec.Labels[sandboxLabel])
		must.NoError(t, err)
		text, err := exec.CommandContext(t.Context(), "nsenter", "-t", strconv.Itoa(pause.State.Pid), "-n",
			"ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1").CombinedOutput()
		must.NoError(t, err, must.Sprint(string(text)))
		again(t, false)
	})
	t.Run("a task joins it", func(t *testing.T) {
		cfg.NetworkIsolation = spec
		s.start(cfg)
		must.Eq(t, "container:"+spec.Labels[sandboxLabel], string(s.inspect(cfg).HostConfig.NetworkMode))
		must.NoError(t, s.DestroyTask(cfg.ID, true))
	})
	t.Run("a restarted one has lost its network", func(t *testing.T) {
		cfg.NetworkIsolation = &drivers.NetworkIsolationSpec{Mode: spec.Mode, Path: "/var/run/docker/netns/other", Labels: spec.Labels}
		_, _, err := s.StartTask(cfg)
		must.ErrorContains(t, err, "has lost its network")
	})
	must.NoError(t, s.driver.DestroyNetwork(cfg.AllocID, nil))
	must.NoError(t, s.networks.DestroyNetwork(cfg.AllocID, spec), must.Sprint("twice is harmless"))
	t.Run("without it no task starts", func(t *testing.T) {
		cfg.NetworkIsolation = spec
		_, _, err := s.StartTask(cfg)
		must.ErrorContains(t, err, "is gone")
	})
}
