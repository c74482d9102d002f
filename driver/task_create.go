// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

const (
	// transientTries bounds retries of a call that failed for no fault of the
	// request (task-driver CC-23, CC-24).
	transientTries = 5
)

// errImageVanished: the engine no longer has an image that it had a moment ago.
var errImageVanished = errors.New("the image vanished from the engine")

// errRunning: a container that is just what we want runs already.
var errRunning = errors.New("container runs already")

// createAndStart makes the container and starts it. A runtime that still knows
// a container of the same id is cured by another id (task-driver CC-24).
func (s *starting) createAndStart() error {
	s.undo(s.removeContainer)
	s.undo(func() { s.ahead.Close() })
	for try := 1; ; try++ {
		err := s.create()
		if errors.Is(err, errRunning) {
			return nil
		}
		if err != nil {
			return err
		}
		s.expectLog()
		err = s.start()
		if err == nil || try >= transientTries || !strings.Contains(err.Error(), "container with id exists") {
			return err
		}
		s.removeContainer()
	}
}

// expectLog opens the engine's log files as they come: a task may fill more than
// the engine keeps before its start is even over.
func (s *starting) expectLog() {
	s.ahead.Close()
	s.ahead = nil
	if t := s.request.HostConfig.LogConfig.Type; t != "" && t != "json-file" {
		return
	}
	info, err := s.p.askInfo(s.ctx)
	if err != nil || info.rootDir == "" {
		return
	}
	s.ahead = s.p.logs.Expect(s.cfg, filepath.Join(info.rootDir, "containers", s.id, s.id+"-json.log"))
}

// removeContainer takes the container back, also one that a create call made
// whose answer was lost.
func (s *starting) removeContainer() {
	ctx, cancel := context.WithTimeout(s.d.ctx, s.p.config.APITimeout)
	defer cancel()
	if s.id != "" {
		s.p.removeForGood(ctx, s.id)
		s.id = ""
		return
	}
	s.p.removeOrphans(ctx, s.cfg.ID)
}

// create makes the container. It returns errRunning when one with our labels and
// the same request runs already: that of an earlier try of this very call.
func (s *starting) create() error {
	retry := retries()
	conflicts, transient := 0, 0
	for {
		id, err := s.p.engine.Create(s.ctx, s.request)
		switch {
		case err == nil:
			s.id = id
			return nil
		case nameTaken(err):
			if conflicts++; conflicts > s.options.ContainerExistsAttempts {
				return recoverable(fmt.Errorf("failed to create container: name %q is still taken after %d attempts: %w", s.request.Name, s.options.ContainerExistsAttempts, err))
			}
			if err := s.clearName(); err != nil {
				return err
			}
		case imageGone(err):
			return recoverable(fmt.Errorf("failed to create container: %w: %w", errImageVanished, err))
		case joinedGone(err):
			return s.joinFault(err, fmt.Errorf("failed to create container: %w", explain(err)))
		case volumeElsewhere(err):
			return recoverable(fmt.Errorf("failed to create container: %w", err))
		case worthRetrying(err) && transient < transientTries:
			transient++
		default:
			return s.createError(err)
		}
		if err := retry.pause(s.ctx); err != nil {
			return recoverable(fmt.Errorf("failed to create container: %w", err))
		}
	}
}

// createError is final for this try; Nomad may try again if only the engine was away.
func (s *starting) createError(err error) error {
	failed := fmt.Errorf("failed to create container: %w", explain(err))
	if engineAway(err) {
		return recoverable(failed)
	}
	return failed
}

// clearName deals with the container that has our name.
func (s *starting) clearName() error {
	found, err := s.p.engine.Inspect(s.ctx, s.request.Name)
	if errdefs.IsNotFound(err) {
		return nil // it vanished meanwhile
	}
	if err != nil {
		return recoverable(fmt.Errorf("failed to inspect container %q, which has our name: %w", s.request.Name, err))
	}
	labels := map[string]string{}
	if found.Config != nil {
		labels = found.Config.Labels
	}
	if labels[container.LabelDriver] != container.DriverName {
		return recoverable(fmt.Errorf("failed to create container: a container that is not ours has the name %q; remove it with \"docker rm -f %s\"", s.request.Name, s.request.Name))
	}
	running := found.State != nil && found.State.Running
	if running && labels[container.LabelSpecHash] == s.request.Config.Labels[container.LabelSpecHash] {
		s.id = found.ID
		return errRunning
	}
	s.d.logger.Info("replacing an older container of this task", "container_id", found.ID, "running", running)
	if err := s.p.engine.Remove(s.ctx, found.ID); err != nil && !errdefs.IsNotFound(err) {
		s.d.logger.Warn("could not remove the older container", "container_id", found.ID, "error", err)
	}
	return nil
}

// start starts the created container.
func (s *starting) start() error {
	retry := retries()
	for try := 1; ; try++ {
		err := s.p.engine.Start(s.ctx, s.id)
		if err == nil {
			return nil
		}
		failed := fmt.Errorf("Failed to start container %s: %w", s.id, explain(err)) //nolint:staticcheck // the built-in driver's text
		switch {
		case joinedIdle(err) && try <= transientTries: // it may be about to start
		case errdefs.IsNotFound(err), joinedIdle(err), joinedGone(err):
			return s.joinFault(err, failed)
		case !worthRetrying(err):
			return failed
		case try > transientTries:
			return recoverable(failed)
		}
		if err := retry.pause(s.ctx); err != nil {
			return recoverable(failed)
		}
	}
}
