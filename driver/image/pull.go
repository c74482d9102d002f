// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"time"

	units "github.com/docker/go-units"
)

// Times of the progress events of one caller (task-driver IM-12): few, because
// an agent keeps a task's last ten events only.
const (
	firstProgress  = 15 * time.Second
	secondProgress = time.Minute
	laterProgress  = 2 * time.Minute
)

// nextProgress is when the n-th progress event is due, counted from the start
// of the wait; n starts at 0.
func nextProgress(n int) time.Duration {
	switch n {
	case 0:
		return firstProgress
	case 1:
		return secondProgress
	}
	return secondProgress + time.Duration(n-1)*laterProgress
}

// pull fetches an image from its registry, together with other callers.
func (c *Coordinator) pull(ctx context.Context, ref Ref, req Request, who Caller) (string, error) {
	who.emit("Downloading image", map[string]string{"image": ref.Familiar})
	auth, err := c.credentials(ctx, ref, req, who)
	if err != nil {
		return "", err
	}
	f, err := c.join(ref, req.Platform, auth)
	if err != nil {
		return "", err
	}
	defer c.leave(f)
	if err := c.wait(ctx, f, req, who); err != nil {
		c.log.Error("pull failed", "image", ref.Familiar, "user", who.ID, "error", err)
		return "", err
	}
	// Counting first and looking again closes the gap in which the collector
	// could take the new image away.
	id, err := c.find(ctx, ref, req.Platform, who, true)
	if err == nil && id == "" {
		err = failure(KindOther, true, nil, "image %q vanished from the engine right after the pull", ref.Familiar)
	}
	if err != nil {
		return "", err
	}
	who.emit(f.summary(time.Now()), map[string]string{"image": ref.Familiar})
	return id, nil
}

// credentials looks up what to pull with.
func (c *Coordinator) credentials(ctx context.Context, ref Ref, req Request, who Caller) (Auth, error) {
	auth, err := req.Credentials.Find(ctx, ref.Host)
	switch {
	case err == nil:
		return auth, nil
	case req.Credentials.SoftFail && ctx.Err() == nil:
		c.log.Warn("no credentials; pulling without", "image", ref.Familiar, "error", err)
		who.emit(fmt.Sprintf("Pulling without credentials: %v", err), nil)
		return Auth{}, nil
	}
	return Auth{}, failure(KindCredentials, false, err, "Failed to find docker auth for repo %q: %v", ref.Familiar, err)
}

// wait follows a pull on behalf of one caller, with that caller's limits.
func (c *Coordinator) wait(ctx context.Context, f *flight, req Request, who Caller) error {
	ctx, cancel := withLimit(ctx, req.Timeout)
	defer cancel()
	begun, events := time.Now(), 0
	silent := time.NewTimer(orForever(req.ActivityTimeout))
	defer silent.Stop()
	event := time.NewTimer(nextProgress(0))
	defer event.Stop()
	for {
		select {
		case <-f.done:
			return f.outcome()
		case <-ctx.Done():
			return f.abandoned(context.Cause(ctx), req)
		case <-silent.C:
			left := req.ActivityTimeout - f.progress.silence(time.Now())
			if left <= 0 {
				return f.stalled(req)
			}
			silent.Reset(left)
		case now := <-event.C:
			who.emit(f.progress.text(now), map[string]string{"image": f.ref.Familiar})
			events++
			event.Reset(nextProgress(events) - now.Sub(begun))
		}
	}
}

// errPullTimeout is the cause of a context that ran into the caller's limit.
var errPullTimeout = errors.New("image_pull_timeout")

// withLimit adds a time limit; 0 adds none.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, errPullTimeout)
}

// orForever turns "no limit" into a time that does not come.
func orForever(d time.Duration) time.Duration {
	if d <= 0 {
		return 1<<63 - 1
	}
	return d
}

// outcome is the result of a finished pull.
func (f *flight) outcome() error {
	if f.err == nil {
		return nil
	}
	return pullFailure(f.ref.Familiar, f.err)
}

// abandoned says why one caller left a pull that is not finished.
func (f *flight) abandoned(cause error, req Request) error {
	if !errors.Is(cause, errPullTimeout) {
		return pullFailure(f.ref.Familiar, cause)
	}
	return failure(KindTimeout, true, cause,
		"Failed to pull `%s`: not finished within image_pull_timeout %q: %s; raise image_pull_timeout, the next attempt keeps finished layers",
		f.ref.Familiar, req.Timeout, f.progress.lastMessage())
}

// stalled says that a pull stood still for too long.
func (f *flight) stalled(req Request) error {
	return failure(KindStalled, true, nil,
		"Failed to pull `%s`: no progress for pull_activity_timeout %q: %s; check the registry and the network, the next attempt keeps finished layers",
		f.ref.Familiar, req.ActivityTimeout, f.progress.lastMessage())
}

// summary is the one line for people after a pull.
func (f *flight) summary(now time.Time) string {
	return fmt.Sprintf("Docker image pull finished: pulled %s %s in %s",
		f.id, units.BytesSize(float64(f.size)), now.Sub(f.progress.started).Round(100*time.Millisecond))
}
