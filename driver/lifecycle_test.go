// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

func TestExitResults(t *testing.T) {
	for _, tc := range []struct {
		name      string
		code      int
		oomState  bool // the container's state says so
		oomEvent  bool // the engine reported it
		want      bool
		wantErr   string
		wantEvent bool
	}{
		{name: "success"},
		{name: "failure", code: 4, wantErr: "Docker container exited with non-zero exit code: 4"},
		{name: "killed is not out of memory", code: 137, wantErr: "Docker container exited with non-zero exit code: 137"},
		{name: "out of memory", code: 137, oomState: true, want: true, wantErr: "OOM Killed"},
		{name: "a child was out of memory", oomState: true, want: true, wantErr: "OOM Killed"},
		{name: "only the event tells", code: 137, oomEvent: true, want: true, wantErr: "OOM Killed"},
		{name: "only the event tells of a child", oomEvent: true, wantEvent: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			cfg := b.task(nil)
			id, _ := b.start(cfg)
			tk, err := b.driver.tasks.Get(cfg.ID)
			must.NoError(t, err)
			events := b.driver.events.Subscribe(t.Context())
			if tc.oomEvent {
				b.engine.oom(id)
				awaitMark(t, tk)
			}
			b.engine.end(id, tc.code, tc.oomState)
			r := b.wait(cfg.ID)
			must.Eq(t, tc.code, r.ExitCode)
			must.Eq(t, 0, r.Signal)
			must.Eq(t, tc.want, r.OOMKilled)
			if tc.wantErr == "" {
				must.NoError(t, r.Err)
			} else {
				must.EqError(t, r.Err, tc.wantErr)
			}
			if tc.wantEvent {
				must.StrContains(t, (<-events).Message, "A child process was killed")
			}
			must.Eq(t, []string{"ship " + id, "drain"}, b.logs.log)
		})
	}
}

func TestWait(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	id, _ := b.start(cfg)
	t.Run("a caller that goes away gets its own error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ch, err := b.driver.WaitTask(ctx, cfg.ID)
		must.NoError(t, err)
		cancel()
		must.ErrorIs(t, (<-ch).Err, context.Canceled)
	})
	t.Run("many callers, before and after the end", func(t *testing.T) {
		before, err := b.driver.WaitTask(t.Context(), cfg.ID)
		must.NoError(t, err)
		b.engine.end(id, 7, false)
		must.Eq(t, 7, (<-before).ExitCode)
		must.Eq(t, 7, b.wait(cfg.ID).ExitCode)
	})
	t.Run("unknown", func(t *testing.T) {
		_, err := b.driver.WaitTask(t.Context(), "x")
		must.ErrorIs(t, err, drivers.ErrTaskNotFound)
	})
}

// TestEngineOutage: a broken connection is no end of a task (task-driver WT-6).
func TestEngineOutageKeepsTasks(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	id, _ := b.start(cfg)
	b.engine.setAway(true)
	status, err := b.InspectTask(cfg.ID)
	must.NoError(t, err)
	must.Eq(t, drivers.TaskStateRunning, status.State)
	b.engine.setAway(false)
	b.engine.end(id, 3, false)
	must.Eq(t, 3, b.wait(cfg.ID).ExitCode)
	must.Eq(t, 0, b.engine.called("stop"))
}

func TestEngineAwayForTooLong(t *testing.T) {
	b := newBench(t, func(c *config.Plugin) { c.EngineDownGraceText = "200ms" })
	cfg := b.task(nil, "GPU-a")
	b.start(cfg)
	b.engine.setAway(true)
	r := b.wait(cfg.ID)
	must.Eq(t, -1, r.ExitCode)
	must.ErrorContains(t, r.Err, "engine_down_grace")
	must.True(t, b.driver.gpus.knows(cfg.ID), must.Sprint("the container may still use its GPU"))
}

// TestEngineAwayTwice: each outage has the whole grace, also when the first began
// longer ago than that.
func TestEngineAwayTwice(t *testing.T) {
	const grace = 5 * time.Second
	b := newBench(t, func(c *config.Plugin) { c.EngineDownGraceText = grace.String() })
	cfg := b.task(nil, "GPU-a")
	id, _ := b.start(cfg)
	awaitCall := func(call string, after int) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.Timeout(10*time.Second), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
			return b.engine.called(call) > after
		})), must.Sprint(call))
	}
	awayOnce := func() {
		asked := b.engine.called("inspect")
		b.engine.setAway(true)
		awaitCall("inspect", asked)
		waited := b.engine.called("wait")
		b.engine.setAway(false)
		awaitCall("wait", waited)
	}
	first := time.Now()
	awayOnce()
	<-time.After(time.Until(first.Add(grace + time.Millisecond))) // the first grace is over
	awayOnce()
	b.engine.end(id, 3, false)
	must.Eq(t, 3, b.wait(cfg.ID).ExitCode)
}

func TestContainerRemovedByHand(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	id, _ := b.start(cfg)
	must.NoError(t, b.engine.Remove(t.Context(), id))
	must.ErrorContains(t, b.wait(cfg.ID).Err, "is gone")
	must.NoError(t, b.StopTask(cfg.ID, time.Second, ""))
	must.NoError(t, b.DestroyTask(cfg.ID, false))
	must.Eq(t, 0, b.images.inUse())
}

func TestStop(t *testing.T) {
	t.Run("sub-second timeouts are not zero", func(t *testing.T) {
		must.Eq(t, 1, wholeSeconds(300*time.Millisecond))
		must.Eq(t, 0, wholeSeconds(0))
		must.Eq(t, 5, wholeSeconds(5*time.Second))
	})
	t.Run("with a signal it returns at the end of the task", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.start(cfg)
		must.NoError(t, b.StopTask(cfg.ID, time.Hour, "SIGKILL"))
		must.Eq(t, 137, b.wait(cfg.ID).ExitCode)
		must.Eq(t, 0, b.engine.called("stop"))
		must.Eq(t, 1, b.engine.called("kill"))
	})
	t.Run("after the timeout the engine kills", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, _ := b.start(cfg)
		must.NoError(t, b.StopTask(cfg.ID, 10*time.Millisecond, "SIGUSR1"))
		b.wait(cfg.ID)
		must.SliceContains(t, b.engine.calls, "kill "+id+" SIGUSR1")
		must.SliceContains(t, b.engine.calls, "stop "+id+" 0s")
	})
	t.Run("the engine fails", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.start(cfg)
		b.engine.fail("stop", errAway)
		must.ErrorContains(t, b.StopTask(cfg.ID, time.Second, ""), "Failed to stop container")
	})
	t.Run("unknown signal, unknown task", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.start(cfg)
		must.ErrorContains(t, b.StopTask(cfg.ID, time.Second, "SIGNOT"), "failed to parse signal")
		must.ErrorIs(t, b.driver.StopTask("x", time.Second, ""), drivers.ErrTaskNotFound)
	})
}

func TestDestroy(t *testing.T) {
	t.Run("a running task needs force", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil, "GPU-a")
		id, _ := b.start(cfg)
		must.ErrorContains(t, b.DestroyTask(cfg.ID, false), "must call StopTask for the given task before Destroy or set force to true")
		must.NoError(t, b.DestroyTask(cfg.ID, true))
		must.SliceEmpty(t, b.engine.names())
		must.Eq(t, 0, b.images.inUse())
		must.False(t, b.driver.gpus.knows(cfg.ID))
		must.Eq(t, []string{"ship " + id, "drain", "close"}, b.logs.log)
		must.ErrorIs(t, b.driver.DestroyTask(cfg.ID, true), drivers.ErrTaskNotFound)
	})
	t.Run("gc.container = false keeps it", func(t *testing.T) {
		b := newBench(t, func(c *config.Plugin) { c.GC.Container = false })
		cfg := b.task(nil)
		b.start(cfg)
		must.NoError(t, b.DestroyTask(cfg.ID, true))
		must.Len(t, 1, b.engine.names())
	})
	t.Run("a failed removal is tried again", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, _ := b.start(cfg)
		b.engine.fail("remove", internal("device or resource busy"))
		must.NoError(t, b.DestroyTask(cfg.ID, true))
		p, err := b.driver.ready()
		must.NoError(t, err)
		must.Eq(t, []string{id}, p.state.Doomed())
		p.bury(t.Context())
		must.SliceEmpty(t, b.engine.names())
		must.SliceEmpty(t, p.state.Doomed())
	})
	t.Run("a container that is gone already", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, _ := b.start(cfg)
		must.NoError(t, b.engine.Remove(t.Context(), id))
		must.NoError(t, b.DestroyTask(cfg.ID, true))
		must.Eq(t, 0, b.images.inUse())
		_, err := b.driver.tasks.Get(cfg.ID)
		must.ErrorIs(t, err, drivers.ErrTaskNotFound)
	})
	t.Run("an engine that is away keeps the task", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.start(cfg)
		b.engine.fail("inspect", errAway)
		must.ErrorContains(t, b.DestroyTask(cfg.ID, true), "failed to inspect container")
		_, err := b.driver.tasks.Get(cfg.ID)
		must.NoError(t, err)
	})
	t.Run("an engine that is away, but the task's end was seen", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, _ := b.start(cfg)
		ch, err := b.driver.WaitTask(t.Context(), cfg.ID)
		must.NoError(t, err)
		b.engine.end(id, 143, false)
		<-ch
		b.engine.setAway(true)
		must.NoError(t, b.DestroyTask(cfg.ID, false))
		_, err = b.driver.tasks.Get(cfg.ID)
		must.ErrorIs(t, err, drivers.ErrTaskNotFound)
		p, err := b.driver.ready()
		must.NoError(t, err)
		must.Eq(t, []string{id}, p.state.Doomed())
	})
	t.Run("waiters get a result", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.start(cfg)
		ch, err := b.driver.WaitTask(t.Context(), cfg.ID)
		must.NoError(t, err)
		must.NoError(t, b.DestroyTask(cfg.ID, true))
		must.Eq(t, 143, (<-ch).ExitCode)
	})
}

func TestRecover(t *testing.T) {
	// crash forgets the task as a new process would.
	crash := func(b *bench, cfg *drivers.TaskConfig) {
		tk, err := b.driver.tasks.Get(cfg.ID)
		must.NoError(b.t, err)
		tk.cancel()
		b.driver.tasks.Forget(cfg.ID)
		b.driver.gpus.Release(cfg.ID)
		b.images.Release(tk.state.ImageID, cfg.ID)
	}
	t.Run("running", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil, "GPU-a")
		id, h := b.start(cfg)
		crash(b, cfg)
		must.NoError(t, b.RecoverTask(h))
		must.NoError(t, b.RecoverTask(h))
		must.Eq(t, 1, b.images.inUse())
		must.True(t, b.driver.gpus.knows(cfg.ID))
		must.Len(t, 1, b.driver.Allocations())
		b.engine.end(id, 2, false)
		must.Eq(t, 2, b.wait(cfg.ID).ExitCode)
	})
	t.Run("exited", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, h := b.start(cfg)
		crash(b, cfg)
		b.engine.end(id, 6, false)
		must.NoError(t, b.RecoverTask(h))
		must.Eq(t, 6, b.wait(cfg.ID).ExitCode)
	})
	t.Run("removed", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, h := b.start(cfg)
		crash(b, cfg)
		must.NoError(t, b.engine.Remove(t.Context(), id))
		must.ErrorContains(t, b.RecoverTask(h), `failed to inspect container for id "`+id+`"`)
		must.Eq(t, 0, b.images.inUse())
	})
	t.Run("engine away", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, h := b.start(cfg)
		crash(b, cfg)
		b.engine.setAway(true)
		must.NoError(t, b.RecoverTask(h))
		status, err := b.InspectTask(cfg.ID)
		must.NoError(t, err)
		must.Eq(t, "reconnecting", status.DriverAttributes["state"])
		b.engine.setAway(false)
		must.Wait(t, wait.InitialSuccess(wait.Timeout(5*time.Second), wait.Gap(10*time.Millisecond), wait.BoolFunc(func() bool {
			status, err := b.InspectTask(cfg.ID)
			return err == nil && status.State == drivers.TaskStateRunning
		})))
		b.engine.end(id, 1, false)
		must.Eq(t, 1, b.wait(cfg.ID).ExitCode)
	})
	t.Run("logs do not start again", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		_, h := b.start(cfg)
		crash(b, cfg)
		b.logs.fail = errors.New("no pipe")
		must.NoError(t, b.RecoverTask(h))
		must.Eq(t, 0, b.engine.called("stop"))
	})
	t.Run("handles of other versions", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		_, h := b.start(cfg)
		newer := h.Copy()
		newer.Version = handleVersion + 1
		must.ErrorContains(t, b.RecoverTask(newer), "this build knows up to 1")
		broken := h.Copy()
		broken.DriverState = []byte("garbage")
		must.ErrorContains(t, b.RecoverTask(broken), "failed to decode driver task state")
		must.ErrorContains(t, b.RecoverTask(&drivers.TaskHandle{Config: cfg}), "failed to decode driver task state")
	})
}

// TestDestroyOfADyingProcess: a container whose removal was never answered is on
// the list of the next process.
func TestDestroyOfADyingProcess(t *testing.T) {
	b := newBench(t, nil)
	id, _ := b.start(b.task(nil))
	p, err := b.driver.ready()
	must.NoError(t, err)
	var doomed []string
	b.engine.onNext("remove", func() { doomed = p.state.Doomed() })
	p.removeForGood(t.Context(), id)
	must.Eq(t, []string{id}, doomed)
	must.SliceEmpty(t, p.state.Doomed())
}

// TestStartAgainUnderAnotherID: an agent that died while it started a task starts
// it again and never mentions the first try.
func TestStartAgainUnderAnotherID(t *testing.T) {
	again := func(first *drivers.TaskConfig) *drivers.TaskConfig {
		cfg := first.Copy()
		cfg.ID += "-again"
		return cfg
	}
	t.Run("after it", func(t *testing.T) {
		b := newBench(t, nil)
		first := b.task(nil, "GPU-a")
		firstID, _ := b.start(first)
		second := again(first)
		id, _ := b.start(second)
		must.NotEq(t, firstID, id)
		must.Len(t, 1, b.engine.names(), must.Sprint("the first container is replaced"))
		_, err := b.driver.tasks.Get(first.ID)
		must.ErrorIs(t, err, drivers.ErrTaskNotFound)
		must.Eq(t, []string{"ship " + firstID, "ship " + id, "close"}, b.logs.log)

		must.NoError(t, b.DestroyTask(second.ID, true))
		must.SliceEmpty(t, b.engine.names())
		must.False(t, b.driver.gpus.holds("GPU-a"))
		for image, users := range b.images.uses {
			must.SliceEmpty(t, users, must.Sprint(image))
		}
	})
	t.Run("during it", func(t *testing.T) {
		b := newBench(t, nil)
		first := b.task(nil, "GPU-a")
		second := again(first)
		asked, answer := make(chan struct{}), make(chan struct{})
		b.engine.onNext("create", func() {
			close(asked)
			<-answer
		})
		ended := make(chan error, 2)
		go func() {
			_, _, err := b.StartTask(first)
			ended <- err
		}()
		<-asked
		go func() {
			_, _, err := b.StartTask(second)
			ended <- err
		}()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return b.driver.tasks.Starting(second.ID) }),
			wait.Timeout(10*time.Second), wait.Gap(time.Millisecond)))
		close(answer)
		must.NoError(t, <-ended)
		must.NoError(t, <-ended)
		must.Len(t, 1, b.engine.names())
		_, err := b.driver.tasks.Get(first.ID)
		must.ErrorIs(t, err, drivers.ErrTaskNotFound)
		_, err = b.driver.tasks.Get(second.ID)
		must.NoError(t, err)
		must.NoError(t, b.DestroyTask(second.ID, true))
		must.False(t, b.driver.gpus.holds("GPU-a"))
	})
}
