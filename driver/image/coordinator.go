// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/hashicorp/go-hclog"
)

// Coordinator resolves images for many tasks at once and counts who uses what.
// All methods are safe for concurrent use.
type Coordinator struct {
	engine func() Engine
	log    hclog.Logger
	uses   *uses

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // pulls and the collector

	mu      sync.Mutex // guards everything below
	closed  bool
	flights map[flightKey]*flight
}

// New makes a Coordinator. It touches neither the engine nor the state file:
// see Start.
func New(cfg Config) *Coordinator {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Coordinator{
		engine:  cfg.Engine,
		log:     cfg.Logger.Named("image"),
		uses:    newUses(cfg.GC, cfg.StateFile),
		ctx:     ctx,
		cancel:  cancel,
		flights: map[flightKey]*flight{},
	}
}

// Close cancels all pulls and the collector and waits for them. Removals that
// are due stay in the state file for the next process.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
}

// Resolve makes sure that the engine has the image and returns its id, counted
// under who.ID until Release. Errors are of type *Error; nothing is counted
// then. It ends with ctx, within moments even in the middle of a pull.
func (c *Coordinator) Resolve(ctx context.Context, req Request, who Caller) (string, error) {
	ref, err := ParseRef(req.Ref)
	if err != nil {
		return "", failure(KindReference, false, err, "%v", err)
	}
	if !req.ForcePull && !ref.Moving || ref.ByID() {
		id, err := c.find(ctx, ref, req.Platform, who, false)
		if err != nil || id != "" {
			return id, err
		}
	}
	switch {
	case req.Load != "":
		return c.load(ctx, ref, req, who)
	case ref.ByID():
		return "", failure(KindNotFound, false, nil, "no image with the id %q on this node; an id cannot be pulled: use a name with a digest", ref.Name)
	}
	return c.pull(ctx, ref, req, who)
}

// find looks an image up on the engine and counts it; "" means that it is not
// there. managed says that we brought it.
func (c *Coordinator) find(ctx context.Context, ref Ref, platform string, who Caller, managed bool) (string, error) {
	for {
		have, err := c.engine().ImageInspect(ctx, ref.Familiar)
		if cerrdefs.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", failure(KindOther, true, err, "failed to inspect image %q: %v", ref.Familiar, err)
		}
		if platform != "" && !samePlatform(platform, have.Os, have.Architecture, have.Variant) {
			return "", nil
		}
		if c.uses.add(have.ID, who.ID, managed) {
			return have.ID, nil
		}
		// The collector is removing this very image: wait, then look again.
		if err := c.uses.settled(ctx, have.ID); err != nil {
			return "", err
		}
	}
}

// Adopt counts an image that a recovered task uses (task-driver RC-5).
func (c *Coordinator) Adopt(imageID, callerID string) {
	c.uses.add(imageID, callerID, false)
}

// Release drops one caller's use of an image. Unknown ids and a second release
// are harmless (task-driver GC-3).
func (c *Coordinator) Release(imageID, callerID string) {
	if !c.uses.drop(imageID, callerID) {
		c.log.Debug("released an image that was not counted", "image", imageID, "user", callerID)
	}
}
