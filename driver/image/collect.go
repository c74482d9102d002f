// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	imagetypes "github.com/docker/docker/api/types/image"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// removeTries and removePause: transient failures of one removal.
	removeTries = 3
	removePause = 3 * time.Second
	// firstRefusal is the pause after the engine said that the image is in use;
	// it doubles up to lastRefusal.
	firstRefusal = time.Minute
	lastRefusal  = time.Hour
)

// Start reads the state file and starts removing images whose time has come.
// Images of the file that nobody adopts within minutes count as unused. Call it
// once; an unreadable state file is an error, and collection starts all the same.
func (c *Coordinator) Start() error {
	if !c.uses.gc.Enabled {
		return nil
	}
	err := c.uses.load()
	c.work.Go(c.collect)
	return err
}

// collect removes images when they are due, one after the other.
func (c *Coordinator) collect() {
	defer guard.Log(c.log, "image collection")
	for {
		due := c.uses.next()
		wait := time.Duration(1<<63 - 1)
		if !due.IsZero() {
			wait = time.Until(due)
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.ctx.Done():
		case <-c.uses.wake:
		case <-timer.C:
		}
		timer.Stop()
		if c.ctx.Err() != nil {
			return
		}
		if id := c.uses.take(time.Now()); id != "" {
			c.uses.removed(id, c.tryRemove(id))
		}
	}
}

// tryRemove is remove, which a panic puts off: starts wait for its end.
func (c *Coordinator) tryRemove(id string) (again time.Time) {
	again = time.Now().Add(lastRefusal)
	defer guard.Log(c.log, "removing an image")
	return c.remove(id)
}

// remove asks the engine to remove an image and returns when to try again; zero
// means that the matter is closed.
func (c *Coordinator) remove(id string) time.Time {
	for try := 1; ; try++ {
		_, err := c.engine().ImageRemove(c.ctx, id, imagetypes.RemoveOptions{Force: true, PruneChildren: true})
		switch {
		case err == nil, cerrdefs.IsNotFound(err):
			c.log.Debug("removed unused image", "image", id)
			return time.Time{}
		case cerrdefs.IsConflict(err):
			c.log.Debug("image is in use by others; trying again later", "image", id, "error", err)
			return time.Now().Add(c.refusalPause(id))
		case c.ctx.Err() != nil:
			return time.Now() // the next process goes on
		case try == removeTries:
			c.log.Warn("failed to remove unused image", "image", id, "error", err)
			return time.Now().Add(c.refusalPause(id))
		}
		if !pause(c.ctx, removePause) {
			return time.Now()
		}
	}
}

// refusalPause grows with each refusal.
func (c *Coordinator) refusalPause(id string) time.Duration {
	d := firstRefusal
	for n := c.uses.refusals(id); n > 0 && d < lastRefusal; n-- {
		d *= 2
	}
	return min(d, lastRefusal)
}

// pause waits and reports false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
