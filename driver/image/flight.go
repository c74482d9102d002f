// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"encoding/json"
	"time"

	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/gpu-docker/gpu-docker/guard"
)

// flightKey is what makes two pulls the same (task-driver IM-8).
type flightKey struct{ name, platform, credentials string }

// flight is one pull under way, shared by its callers.
type flight struct {
	key      flightKey
	ref      Ref
	progress *progress
	cancel   context.CancelFunc
	callers  int // guarded by Coordinator.mu

	done chan struct{} // closed when the fields below are set
	id   string
	size int64 // bytes on the engine's disk
	err  error
}

// join enters the pull for key, starting it if there is none.
func (c *Coordinator) join(ref Ref, platform string, auth Auth) (*flight, error) {
	key := flightKey{ref.Name, platform, auth.digest()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, failure(KindOther, true, nil, "Failed to pull `%s`: the driver is shutting down", ref.Familiar)
	}
	if f := c.flights[key]; f != nil {
		f.callers++
		return f, nil
	}
	ctx, cancel := context.WithCancel(c.ctx)
	f := &flight{key: key, ref: ref, progress: newProgress(time.Now()), cancel: cancel, callers: 1, done: make(chan struct{})}
	c.flights[key] = f
	c.work.Go(func() { c.fly(ctx, f, auth) })
	return f, nil
}

// leave takes one caller out; the last one takes the pull along. A pull that is
// given up is never joined again.
func (c *Coordinator) leave(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.callers--
	if f.callers > 0 {
		return
	}
	f.cancel()
	c.forget(f)
}

// forget drops the entry, so that later callers ask the registry again. c.mu is
// held.
func (c *Coordinator) forget(f *flight) {
	if c.flights[f.key] == f {
		delete(c.flights, f.key)
	}
}

// fly pulls and tells the callers.
func (c *Coordinator) fly(ctx context.Context, f *flight, auth Auth) {
	defer func() {
		c.mu.Lock()
		c.forget(f)
		c.mu.Unlock()
		close(f.done)
	}()
	defer f.cancel()
	defer guard.Catch(c.log, "pulling an image", &f.err)
	f.err = c.transfer(ctx, f, auth)
	if f.err == nil {
		f.err = c.landed(ctx, f)
	}
}

// transfer runs the pull to the end of its stream.
func (c *Coordinator) transfer(ctx context.Context, f *flight, auth Auth) error {
	header, err := auth.header()
	if err != nil {
		return err
	}
	stream, err := c.engine().ImagePull(ctx, f.ref.Name, imagetypes.PullOptions{RegistryAuth: header, Platform: f.key.platform})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // read to its end, or given up
	err = eachMessage(stream, func(m message) { f.progress.see(m, time.Now()) })
	if err == nil {
		err = ctx.Err() // a stream that ends because we left is no success
	}
	return err
}

// landed asks for the id of what was pulled (task-driver IM-14).
func (c *Coordinator) landed(ctx context.Context, f *flight) error {
	have, err := c.engine().ImageInspect(ctx, f.ref.Familiar)
	if err != nil {
		return failure(KindOther, true, err, "failed to inspect image %q after the pull: %v", f.ref.Familiar, err)
	}
	f.id, f.size = have.ID, have.Size
	return nil
}

// header encodes the credentials for the engine; empty for none.
func (a Auth) header() (string, error) {
	if a == (Auth{}) {
		return "", nil
	}
	return registry.EncodeAuthConfig(registry.AuthConfig{
		Username: a.Username, Password: a.Password, ServerAddress: a.ServerAddress,
		IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
	})
}

// digest tells credentials apart without keeping them.
func (a Auth) digest() string {
	if a == (Auth{}) {
		return ""
	}
	// Auth holds strings only: encoding cannot fail.
	text, _ := json.Marshal(a)
	return sha256Hex(text)
}
