// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/guard"
)

// Shipper ships the log of one container, in one goroutine. Its methods are safe
// for concurrent use.
type Shipper struct {
	cfg    Config
	log    hclog.Logger
	cancel context.CancelFunc
	done   chan struct{} // closed when shipping has ended

	exited   chan struct{} // closed by Drain: the container does not run any more
	exitOnce sync.Once

	ending sync.Once // Stop or Close

	// The goroutine's own:
	pos         position
	attached    bool
	early       *watchedFiles // opened and not yet read from; nil without
	fileLimit   int           // files that the engine keeps
	filesFailed bool          // reading the engine's files directly went wrong
	lossTold    bool
}

// Start begins to ship and returns at once; it touches neither the engine nor
// the sink itself (task-driver LG-3). End it with Stop or Close.
func Start(cfg Config) *Shipper {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Shipper{
		cfg: cfg, log: cfg.Logger.Named("logship").With("container", cfg.Container),
		cancel: cancel, done: make(chan struct{}), exited: make(chan struct{}),
	}
	go s.run(ctx)
	return s
}

// Drain says that the container has exited and waits until its last byte has
// reached the reader of the logs. It returns ctx's error when that takes too
// long; shipping goes on then, until Stop or Close.
func (s *Shipper) Drain(ctx context.Context) error {
	s.exitOnce.Do(func() { close(s.exited) })
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("logs of container %q are not shipped to the end: %w", s.cfg.Container, ctx.Err())
	}
}

// Done is closed when everything is shipped, or nothing more can be.
func (s *Shipper) Done() <-chan struct{} { return s.done }

// Stop ends shipping and keeps the position, for a Shipper of the next process.
func (s *Shipper) Stop() {
	s.ending.Do(func() {
		s.cancel()
		<-s.done
		s.cfg.Sink.detach()
	})
}

// Close ends shipping for good: readers of the logs see the end, and the
// position is forgotten.
func (s *Shipper) Close() {
	s.ending.Do(func() {
		s.cancel()
		<-s.done
		s.cfg.Sink.discard()
	})
}

// Outcomes of one attempt other than plain failures.
var (
	errEarlyEnd  = errors.New("engine ended the log stream though the container runs")
	errNoReading = errors.New("the container's log driver keeps nothing to read")
)

// run ships until the end, with pauses after failures.
func (s *Shipper) run(ctx context.Context) {
	defer close(s.done)
	defer s.closeEarly()
	defer s.cfg.Ahead.Close() // unless taken
	defer guard.Log(s.log, "log shipping")
	var pauses backoff
	for {
		begun, hurry := time.Now(), s.exited
		if closed(hurry) {
			hurry = nil // this attempt knows already
			pauses.pause = min(pauses.pause, firstPause)
		}
		err := s.attempt(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case errors.Is(err, errNoReading):
			s.tell("Task logs are not collected: the log driver of the container cannot be read; choose another logging type")
			return
		}
		s.log.Debug("log shipping was interrupted", "error", err)
		pauses.ran(time.Since(begun))
		if !pauses.wait(ctx, hurry) {
			return
		}
	}
}

// closed reports whether a channel without values is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tell writes to the log and to the task's events.
func (s *Shipper) tell(message string) {
	s.log.Warn(message)
	if s.cfg.Emit != nil {
		s.cfg.Emit(message)
	}
}
