// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/shoenig/test/must"
)

// brokenEngine panics in pulls and removals as long as it is broken.
type brokenEngine struct {
	*fakeEngine
	broken atomic.Bool
}

func (e *brokenEngine) ImagePull(ctx context.Context, ref string, opts imagetypes.PullOptions) (io.ReadCloser, error) {
	if e.broken.Load() {
		panic("no layer")
	}
	return e.fakeEngine.ImagePull(ctx, ref, opts)
}

func (e *brokenEngine) ImageRemove(ctx context.Context, id string, opts imagetypes.RemoveOptions) ([]imagetypes.DeleteResponse, error) {
	if e.broken.Load() {
		panic("no layer")
	}
	return e.fakeEngine.ImageRemove(ctx, id, opts)
}

// TestPanics: a panic in a pull is its callers' error, one in a removal puts that off;
// neither holds up what comes later (task-driver PL-15).
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &brokenEngine{fakeEngine: newFakeEngine()}
		e.broken.Store(true)
		e.remote["busybox:1"] = "id1"
		c := New(Config{Engine: func() Engine { return e }, GC: on})
		must.NoError(t, c.Start())
		defer c.Close()

		_, err := c.Resolve(t.Context(), Request{Ref: "busybox:1"}, Caller{ID: "a"})
		must.ErrorContains(t, err, "internal error in pulling an image: no layer")
		e.broken.Store(false)
		c.Release(resolve(t, c, "busybox:1", "a"), "a")
		e.broken.Store(true)
		after(delay)
		must.Eq(t, "id1", resolve(t, c, "busybox:1", "b"), must.Sprint("a start waits for no removal"))
		c.Release("id1", "b")
		e.broken.Store(false)
		after(delay + lastRefusal)
		must.Eq(t, []string{"id1"}, e.removals())
	})
}
