// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

func TestEvents(t *testing.T) {
	cfg := &drivers.TaskConfig{ID: "a/t/1", AllocID: "a", Name: "t"}
	t.Run("all subscribers get it, whole", func(t *testing.T) {
		e := newEventer(hclog.NewNullLogger())
		one, two := e.Subscribe(t.Context()), e.Subscribe(t.Context())
		e.Emit(cfg, "hello", map[string]string{"image": "x"})
		for _, ch := range []<-chan *drivers.TaskEvent{one, two} {
			ev := <-ch
			must.Eq(t, "a/t/1", ev.TaskID)
			must.Eq(t, "a", ev.AllocID)
			must.Eq(t, "t", ev.TaskName)
			must.Eq(t, "hello", ev.Message)
			must.Eq(t, "x", ev.Annotations["image"])
		}
	})
	t.Run("a cancelled one is closed and forgotten", func(t *testing.T) {
		e := newEventer(hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		ch := e.Subscribe(ctx)
		cancel()
		_, open := <-ch
		must.False(t, open)
		must.Wait(t, wait.InitialSuccess(wait.Timeout(5*time.Second), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.subs) == 0
		})))
	})
	t.Run("nobody who does not read holds it up", func(t *testing.T) {
		e := newEventer(hclog.NewNullLogger())
		e.Subscribe(t.Context())
		begun := time.Now()
		for i := range 10 * eventBuffer {
			e.Emit(cfg, fmt.Sprint(i), nil)
		}
		must.Less(t, eventPatience, time.Since(begun))
	})
	t.Run("repetitions are held back for a while", func(t *testing.T) {
		e := newEventer(hclog.NewNullLogger())
		now := time.Now()
		e.now = func() time.Time { return now }
		ch := e.Subscribe(t.Context())
		e.Emit(cfg, "again", nil)
		e.Emit(cfg, "again", nil)
		e.Emit(cfg, "other", nil)
		now = now.Add(repeatAfter)
		e.Emit(cfg, "again", nil)
		must.Eq(t, "again", (<-ch).Message)
		must.Eq(t, "other", (<-ch).Message)
		must.Eq(t, "again", (<-ch).Message)
	})
	t.Run("what is remembered is bounded", func(t *testing.T) {
		e := newEventer(hclog.NewNullLogger())
		now := time.Now()
		e.now = func() time.Time { return now }
		for minute := range 10 {
			for i := range 100 { // starts that fail, each with an id of its own
				e.Emit(&drivers.TaskConfig{ID: fmt.Sprintf("a/t/%d-%d", minute, i)}, "Downloading image", nil)
			}
			now = now.Add(repeatAfter)
		}
		e.Emit(cfg, "again", nil)
		must.MapLen(t, 1, e.last)
	})
}
