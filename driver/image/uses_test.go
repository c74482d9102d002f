// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/shoenig/test/must"
)

// collecting starts a Coordinator with GC and the image "busybox:1" on the
// engine.
func collecting(t *testing.T, f *fakeEngine, gc GC, stateFile string) *Coordinator {
	t.Helper()
	f.local["busybox:1"] = "id1"
	f.remote["busybox:1"], f.remote["busybox:2"] = "id1", "id2"
	c := New(Config{Engine: func() Engine { return f }, GC: gc, StateFile: stateFile})
	must.NoError(t, c.Start())
	return c
}

// resolve counts the image for a caller.
func resolve(t *testing.T, c *Coordinator, ref, caller string) string {
	t.Helper()
	id, err := c.Resolve(t.Context(), Request{Ref: ref}, Caller{ID: caller})
	must.NoError(t, err)
	return id
}

const delay = 3 * time.Minute

var on = GC{Enabled: true, Delay: delay}

// after lets simulated time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// task-driver GC-1, GC-2: the last release starts the delay; one removal.
func TestRemovedAfterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		c := collecting(t, f, on, "")
		defer c.Close()
		id := resolve(t, c, "busybox:1", "a")
		must.Eq(t, id, resolve(t, c, "busybox:1", "b"))
		c.Release(id, "a")
		after(time.Hour)
		must.SliceEmpty(t, f.removals())
		c.Release(id, "b")
		c.Release(id, "b")
		c.Release("unknown", "b")
		after(delay - time.Second)
		must.SliceEmpty(t, f.removals())
		after(time.Hour)
		must.Eq(t, []string{"id1"}, f.removals())
	})
}

// A start within the delay calls the removal off (cases DRV-14).
func TestUseCancelsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		c := collecting(t, f, on, "")
		defer c.Close()
		c.Release(resolve(t, c, "busybox:1", "a"), "a")
		after(delay - time.Second)
		id := resolve(t, c, "busybox:1", "b")
		after(time.Hour)
		must.SliceEmpty(t, f.removals())
		c.Release(id, "b")
		after(delay)
		must.Eq(t, []string{"id1"}, f.removals())
	})
}

// cases DRV-14: gc.image off means no removal, ever, and no state.
func TestGCOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "images.json")
		f := newFakeEngine()
		c := collecting(t, f, GC{Delay: delay}, file)
		defer c.Close()
		c.Release(resolve(t, c, "busybox:2", "a"), "a")
		after(24 * time.Hour)
		must.SliceEmpty(t, f.removals())
		_, err := os.Stat(file)
		must.ErrorIs(t, err, os.ErrNotExist)
	})
}

// task-driver GC-4, image_scope = "managed": only what we brought.
func TestManagedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		c := collecting(t, f, GC{Enabled: true, Delay: delay, ManagedOnly: true}, "")
		defer c.Close()
		c.Release(resolve(t, c, "busybox:1", "a"), "a")
		c.Release(resolve(t, c, "busybox:2", "a"), "a")
		after(time.Hour)
		must.Eq(t, []string{"id2"}, f.removals())
	})
}

// task-driver GC-2: three tries, three seconds apart, for what may pass; gone is
// done; in use is tried again later (GC-4).
func TestRemovalErrors(t *testing.T) {
	boom := fmt.Errorf("engine hiccup")
	inUse := fmt.Errorf("in use: %w", cerrdefs.ErrConflict)
	for _, tc := range []struct {
		name  string
		errs  []error
		calls int
		took  time.Duration
	}{
		{"not found", []error{fmt.Errorf("x: %w", cerrdefs.ErrNotFound)}, 1, 0},
		{"hiccups", []error{boom, boom, nil}, 3, 2 * removePause},
		{"in use twice", []error{inUse, inUse, nil}, 3, 3 * firstRefusal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				f.removeErrs = tc.errs
				c := collecting(t, f, on, "")
				defer c.Close()
				c.Release(resolve(t, c, "busybox:1", "a"), "a")
				after(delay + tc.took)
				must.Len(t, tc.calls, f.removals())
				after(24 * time.Hour)
				must.Len(t, tc.calls, f.removals())
			})
		})
	}
}

// task-driver GC-5: a start during the removal waits and pulls again.
func TestStartDuringRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.removing = make(chan struct{})
		c := collecting(t, f, on, "")
		defer c.Close()
		c.Release(resolve(t, c, "busybox:1", "a"), "a")
		after(delay)
		done := make(chan string)
		go func() { done <- resolve(t, c, "busybox:1", "b") }()
		synctest.Wait()
		must.Eq(t, 0, f.pullCount())
		close(f.removing)
		must.Eq(t, "id1", <-done)
		must.Eq(t, 1, f.pullCount())
		after(time.Hour)
		must.Len(t, 1, f.removals())
	})
}

// task-driver GC-4, RC-5: removals that are due and images in use outlive the
// process; recovered tasks keep theirs.
func TestStateSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state", "images.json")
		f := newFakeEngine()
		f.remote["busybox:3"] = "id3"
		c := collecting(t, f, on, file)
		resolve(t, c, "busybox:1", "recovered")
		resolve(t, c, "busybox:2", "lost with the agent")
		c.Release(resolve(t, c, "busybox:3", "over"), "over")
		c.Close()

		c = New(Config{Engine: func() Engine { return f }, GC: on, StateFile: file})
		c.Adopt("id1", "recovered") // may come before the first fingerprint
		must.NoError(t, c.Start())
		defer func() { c.Close() }()
		after(delay)
		must.Eq(t, []string{"id3"}, f.removals())
		after(recoverGrace)
		must.Eq(t, []string{"id3", "id2"}, f.removals())
		after(24 * time.Hour)
		must.Len(t, 2, f.removals())
		c.Release("id1", "recovered")
		after(delay)
		must.Len(t, 3, f.removals())
	})
}

// A damaged state file is told and does not stop collection.
func TestDamagedState(t *testing.T) {
	for _, text := range []string{"{", `{"version":99}`} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "images.json")
			must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			f := newFakeEngine()
			f.local["busybox:1"] = "id1"
			c := New(Config{Engine: func() Engine { return f }, GC: on, StateFile: file})
			must.ErrorContains(t, c.Start(), "image state")
			defer c.Close()
			c.Release(resolve(t, c, "busybox:1", "a"), "a")
			after(delay)
			must.Len(t, 1, f.removals())
		})
	}
}

// task-driver GC-2: pending removals end with Close.
func TestCloseEndsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.removing = make(chan struct{})
		c := collecting(t, f, on, "")
		c.Release(resolve(t, c, "busybox:1", "a"), "a")
		after(delay)
		c.Close()
		must.SliceEmpty(t, f.removals())
		f.feed = func(*io.PipeWriter) {}
		_, err := c.Resolve(t.Context(), Request{Ref: "busybox:2"}, Caller{ID: "a"})
		must.ErrorContains(t, err, "shutting down")
	})
}
