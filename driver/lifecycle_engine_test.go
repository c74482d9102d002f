// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

func TestEngineStartWait(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("echo out; echo err >&2; exit 3", nil)
	h, network, err := s.StartTask(cfg)
	must.NoError(t, err)
	must.NotNil(t, h)
	must.NotNil(t, network)
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
