// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

func TestEngineStartWait(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("echo out; echo err >&2; until [ -e $NOMAD_TASK_DIR/go ]; do sleep 0.1; done; exit 3", nil)
	h, network, err := s.StartTask(cfg)
	must.NoError(t, err)
	must.NotNil(t, h)
	must.NotNil(t, network)
	tk, err := s.driver.tasks.Get(cfg.ID)
	must.NoError(t, err)
	made, err := docker(t).ContainerInspect(t.Context(), tk.state.ContainerID)
	must.NoError(t, err)
	must.Eq(t, made.NetworkSettings.Networks["bridge"].IPAddress, network.IP)
	must.NotEq(t, "", network.IP)
	must.NoError(t, os.WriteFile(filepath.Join(cfg.TaskDir().LocalDir, "go"), nil, 0o600))
	r := s.wait(cfg.ID)
	must.Eq(t, 3, r.ExitCode)
	must.False(t, r.OOMKilled)
	must.EqError(t, r.Err, "Docker container exited with non-zero exit code: 3")
	s.waitLog(cfg, "stdout", "out\n")
	s.waitLog(cfg, "stderr", "err\n")
	must.NoError(t, s.DestroyTask(cfg.ID, false))
	_, err = s.InspectTask(cfg.ID)
	must.ErrorContains(t, err, drivers.ErrTaskNotFound.Error())
}

func TestEngineStop(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done", nil)
	s.start(cfg)
	s.waitLog(cfg, "stdout", "ready\n")
	must.NoError(t, s.StopTask(cfg.ID, 5*time.Second, ""))
	must.Eq(t, 7, s.wait(cfg.ID).ExitCode)
	must.NoError(t, s.DestroyTask(cfg.ID, false))
}

// TestEngineAllocDir: a task's directories are those of the host. That of secrets
// is a file system that was mounted after the engine started, so an engine with
// mounts of its own may have another one there: the engine's word counts.
func TestEngineAllocDir(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task(`echo shared > $NOMAD_ALLOC_DIR/data/x; echo own > $NOMAD_TASK_DIR/x; touch $NOMAD_SECRETS_DIR/x`, nil)
	s.start(cfg)
	must.Eq(t, 0, s.wait(cfg.ID).ExitCode)
	dir := cfg.TaskDir()
	for file, want := range map[string]string{
		filepath.Join(dir.SharedAllocDir, "data", "x"): "shared\n",
		filepath.Join(dir.LocalDir, "x"):               "own\n",
	} {
		text, err := os.ReadFile(file)
		must.NoError(t, err)
		must.Eq(t, want, string(text))
	}
	status, err := s.InspectTask(cfg.ID)
	must.NoError(t, err)
	found, err := docker(t).ContainerInspect(t.Context(), status.DriverAttributes["container_id"])
	must.NoError(t, err)
	must.SliceContains(t, found.HostConfig.Binds, dir.SecretsDir+":/secrets")
	must.NoError(t, s.DestroyTask(cfg.ID, false))
}

// TestEngineManyTasks starts tasks of several images at the same time.
func TestEngineManyTasks(t *testing.T) {
	s := newSite(t, nil)
	var tasks []*drivers.TaskConfig
	for i := range 6 {
		ref := fmt.Sprintf("gpu-docker-driver-test:many-%d", i%3)
		importImage(t, ref, fmt.Sprintf("ENV WHICH=%d", i%3))
		tasks = append(tasks, s.task("", func(o *config.Task) {
			o.Image, o.Command, o.Args = ref, "/bin/sh", []string{"-c", "exit 1$WHICH"}
		}))
	}
	s.startAll(tasks)
	for i, cfg := range tasks {
		must.Eq(t, 10+i%3, s.wait(cfg.ID).ExitCode)
		must.NoError(t, s.DestroyTask(cfg.ID, false))
	}
}

// TestEngineAnonymousVolume: a volume without a name goes with its task (task-driver
// DT-3).
func TestEngineAnonymousVolume(t *testing.T) {
	s := newSite(t, func(c *config.Plugin) { c.Volumes.Enabled = true })
	cfg := s.task("sleep 120", func(o *config.Task) { o.Mounts = []config.Mount{{Type: "volume", Target: "/data"}} })
	s.start(cfg)
	tk, err := s.driver.tasks.Get(cfg.ID)
	must.NoError(t, err)
	made, err := docker(t).ContainerInspect(t.Context(), tk.state.ContainerID)
	must.NoError(t, err)
	at := slices.IndexFunc(made.Mounts, func(m engineapi.MountPoint) bool { return m.Destination == "/data" })
	must.NotEq(t, -1, at)
	name := made.Mounts[at].Name
	_, err = docker(t).VolumeInspect(t.Context(), name)
	must.NoError(t, err)
	must.NoError(t, s.DestroyTask(cfg.ID, true))
	_, err = docker(t).VolumeInspect(t.Context(), name)
	must.True(t, errdefs.IsNotFound(err), must.Sprint(err))
}

// TestEngineTerminal: a task with a terminal has one stream, with the terminal's
// line ends.
func TestEngineTerminal(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("", func(o *config.Task) {
		o.TTY, o.Command, o.Args = true, "/bin/sh", []string{"-c", "echo out; echo err >&2"}
	})
	s.start(cfg)
	must.Eq(t, 0, s.wait(cfg.ID).ExitCode)
	s.waitLog(cfg, "stdout", "out\r\nerr\r\n")
	must.NoError(t, s.DestroyTask(cfg.ID, false))
}
