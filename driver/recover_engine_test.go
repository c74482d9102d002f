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

// again gives a new plugin process' driver with the old one's state directory.
func (s *site) again() *site {
	s.t.Helper()
	s.kill()
	return newSiteIn(s.t, s.driver.stateDir, nil)
}

// handle is what the agent kept: the config as the agent builds it anew, without
// devices and network.
func handle(h *drivers.TaskHandle) *drivers.TaskHandle {
	kept := h.Copy()
	kept.Config.DeviceEnv = nil
	kept.Config.NetworkIsolation = nil
	return kept
}

func TestEngineRecoverRunning(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("trap 'echo bye; exit 5' TERM; echo first; while :; do sleep 0.1; done", nil)
	h := s.start(cfg)
	s.waitLog(cfg, "stdout", "first\n")

	s = s.again()
	must.NoError(t, s.RecoverTask(handle(h)))
	must.NoError(t, s.RecoverTask(handle(h)), must.Sprint("a known task stays as it is"))
	status, err := s.InspectTask(cfg.ID)
	must.NoError(t, err)
	must.Eq(t, drivers.TaskStateRunning, status.State)
	must.NoError(t, s.StopTask(cfg.ID, 10*time.Second, ""))
	must.Eq(t, 5, s.wait(cfg.ID).ExitCode)
	s.waitLog(cfg, "stdout", "first\nbye\n")
	must.NoError(t, s.DestroyTask(cfg.ID, false))
}

func TestEngineRecoverExited(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("echo early; sleep 2; echo late; exit 9", nil)
	h := s.start(cfg)
	s.waitLog(cfg, "stdout", "early\n")
	id := s.inspect(cfg).ID
	s.kill()
	eventually(t, testLimit, func() error {
		found, err := docker(t).ContainerInspect(t.Context(), id)
		if err == nil && found.State.Running {
			return errRunning
		}
		return err
	})
	s = s.again()
	must.NoError(t, s.RecoverTask(handle(h)))
	must.Eq(t, 9, s.wait(cfg.ID).ExitCode)
	s.waitLog(cfg, "stdout", "early\nlate\n")
	must.NoError(t, s.DestroyTask(cfg.ID, true))
}

func TestEngineRecoverRemoved(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("sleep 60", nil)
	h := s.start(cfg)
	id := s.inspect(cfg).ID
	s.kill()
	removeContainers(t, cfg.AllocID)
	s = s.again()
	must.ErrorContains(t, s.RecoverTask(handle(h)), `failed to inspect container for id "`+id+`"`)
	_, err := s.InspectTask(cfg.ID)
	must.ErrorContains(t, err, drivers.ErrTaskNotFound.Error())
}

func TestEngineHalfMadeContainer(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("sleep 60", nil)
	s.start(cfg)
	id := s.inspect(cfg).ID

	t.Run("a running container of the same start is adopted", func(t *testing.T) {
		next := s.again()
		next.start(cfg) // the agent repeats a start that a crash interrupted
		must.Eq(t, id, next.inspect(cfg).ID)
		must.NoError(t, next.DestroyTask(cfg.ID, true))
	})
	t.Run("one of an earlier start is replaced", func(t *testing.T) {
		s := newSite(t, nil)
		old := s.task("sleep 60", nil)
		s.start(old)
		id := s.inspect(old).ID
		s = s.again()
		fresh := old.Copy()
		fresh.ID += "x"
		s.start(fresh)
		must.NotEq(t, id, s.inspect(fresh).ID)
		must.NoError(t, s.DestroyTask(fresh.ID, true))
	})
}

func TestEngineForceDestroyOfUnknownTask(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("sleep 60", nil)
	s.start(cfg)
	id := s.inspect(cfg).ID
	s = s.again()
	must.ErrorContains(t, s.DestroyTask(cfg.ID, true), drivers.ErrTaskNotFound.Error())
	_, err := docker(t).ContainerInspect(t.Context(), id)
	must.ErrorContains(t, err, "No such container")
}
