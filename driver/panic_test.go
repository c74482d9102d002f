// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/volume"
)

// brokenVolumes panics when a volume is to be built.
type brokenVolumes struct {
	fakeVolumes
	asked atomic.Int64
}

func (v *brokenVolumes) List() ([]volume.Volume, error) { return nil, nil }

func (v *brokenVolumes) Ensure(context.Context) (*volume.Volume, error) {
	v.asked.Add(1)
	panic("odd file")
}

// brokenWriter panics when it is written to.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { panic("odd text") }

// TestPanicsStayInOneGoroutine: whatever runs beside the calls of the agent may panic,
// and whoever waits for it gets an answer (task-driver PL-15). Without guards the test
// program itself would end.
func TestPanicsStayInOneGoroutine(t *testing.T) {
	odd := func() { panic("odd answer") }
	t.Run("a task's watcher", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.engine.onNext("wait", odd)
		b.start(cfg)
		must.ErrorContains(t, b.wait(cfg.ID).Err, "internal error in watch: odd answer")
		must.NoError(t, b.DestroyTask(cfg.ID, true))
	})
	t.Run("statistics", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		b.start(cfg)
		b.engine.onNext("stats", odd)
		samples, err := b.driver.TaskStats(t.Context(), cfg.ID, time.Second)
		must.NoError(t, err)
		_, open := <-samples
		must.False(t, open)
	})
	t.Run("the output of an exec", func(t *testing.T) {
		b := newBench(t, nil)
		p, err := b.driver.ready()
		must.NoError(t, err)
		b.engine.exec.set(func(x *fakeExec) { x.output = []byte("text") })
		_, err = p.exec(t.Context(), newTask(t.Context(), b.task(nil), &taskState{}), execRequest{
			command: []string{"x"}, tty: true, stdout: brokenWriter{}, stderr: io.Discard,
		})
		must.ErrorContains(t, err, "internal error in exec output: odd text")
	})
	t.Run("a volume that is built ahead", func(t *testing.T) {
		b := newBench(t, nil)
		p, err := b.driver.ready()
		must.NoError(t, err)
		volumes := &brokenVolumes{}
		p.volumes = volumes
		for tries := int64(1); tries <= 2; tries++ { // the second is not kept out by the first
			must.Wait(t, wait.InitialSuccess(wait.Timeout(10*time.Second), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
				b.driver.prebuildVolume(p)
				return volumes.asked.Load() >= tries
			})))
		}
	})
}
