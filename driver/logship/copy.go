// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"io"
)

// attempt ships until the container's log has ended, which is nil, or until
// something fails.
func (s *Shipper) attempt(ctx context.Context) error {
	info, err := s.inspect(ctx)
	path, direct := "", false
	if err == nil && s.cfg.Watcher != nil && !s.filesFailed {
		path, direct = readable(info)
	}
	if direct {
		s.fileLimit = fileLimit(info)
		s.openEarly(path)
	}
	if !s.attached {
		pos, err := s.cfg.Sink.attach(ctx)
		if err != nil {
			return err
		}
		s.pos, s.attached = pos, true
	}
	switch {
	case direct:
		err = s.copyFiles(ctx, path)
	case err == nil:
		err = s.copyStreams(ctx)
	}
	if err := s.orGone(err); err != nil {
		return err
	}
	return s.cfg.Sink.flush(ctx)
}

// copyFiles ships from the engine's files until Drain was called and all is
// read.
func (s *Shipper) copyFiles(ctx context.Context, path string) error {
	src, seek, err := s.openFiles(ctx, path)
	if err == nil {
		err = s.copyAll(ctx, src, seek)
	}
	if err != nil && ctx.Err() == nil && s.attached { // not the sink's fault
		s.log.Warn("cannot read the engine's log files; reading through the engine", "error", err)
		s.filesFailed = true
	}
	if err == nil && !closed(s.exited) { // the files are gone; so is the container, usually
		return s.stillRunning(ctx)
	}
	return err
}

// stillRunning is errEarlyEnd while the container runs.
func (s *Shipper) stillRunning(ctx context.Context) error {
	info, err := s.inspect(ctx)
	if err == nil && (info.State.Running || info.State.Restarting) {
		return errEarlyEnd
	}
	return err
}

// copyStreams ships through the engine until its log ends.
func (s *Shipper) copyStreams(ctx context.Context) error {
	src, seek, err := s.openStream(ctx, following)
	if err != nil {
		return err
	}
	if err := s.copyAll(ctx, src, seek); err != nil {
		return err
	}
	if err := s.stillRunning(ctx); err != nil {
		return err
	}
	return s.copyTail(ctx)
}

// copyTail ships what a following stream may have left: it can end a little
// before the log does. If the last entries do not reach back to the position,
// everything from there on is read again.
func (s *Shipper) copyTail(ctx context.Context) error {
	src, seek, err := s.openStream(ctx, tail)
	if err != nil {
		return err
	}
	last := s.pos.Last
	first, err := src.next(ctx)
	if err == nil && first.time <= last {
		return s.copyFrom(ctx, first, src, seek)
	}
	src.close()
	if errors.Is(err, io.EOF) {
		return nil // an empty log
	}
	if src, seek, err = s.openStream(ctx, rest); err != nil {
		return err
	}
	return s.copyAll(ctx, src, seek)
}

// copyAll ships all that a source yields, and closes it.
func (s *Shipper) copyAll(ctx context.Context, src source, seek *seeker) error {
	first, err := src.next(ctx)
	if err != nil {
		src.close()
		return endIsFine(err)
	}
	if s.pos.Last != 0 && first.time > s.pos.Last && seek.from != [streams]cursor{} {
		s.tellLoss()
	}
	return s.copyFrom(ctx, first, src, seek)
}

// copyFrom is copyAll after the first entry.
func (s *Shipper) copyFrom(ctx context.Context, e entry, src source, seek *seeker) error {
	defer src.close()
	out := batch{pos: s.pos}
	defer out.reset()
	for {
		if seek.isNew(e) {
			if err := s.take(ctx, &out, e); err != nil {
				return err
			}
		}
		if !src.ready() {
			if err := s.ship(ctx, &out); err != nil {
				return err
			}
		}
		var err error
		if e, err = src.next(ctx); err != nil {
			return errors.Join(s.ship(ctx, &out), endIsFine(err))
		}
	}
}

func endIsFine(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take adds an entry to the batch, which is shipped first if it is full or of
// the other stream.
func (s *Shipper) take(ctx context.Context, out *batch, e entry) error {
	if !out.fits(e) {
		if err := s.ship(ctx, out); err != nil {
			return err
		}
	}
	out.add(e)
	return nil
}

// ship hands the batch to the sink. After an error the sink is asked anew where
// it stands.
func (s *Shipper) ship(ctx context.Context, out *batch) error {
	c, ok := out.chunk()
	if !ok {
		return nil
	}
	if err := s.cfg.Sink.write(ctx, c); err != nil {
		s.attached = false
		return err
	}
	s.pos = c.after
	out.reset()
	return nil
}

// tellLoss reports, once, that the engine's log does not reach back to where we
// stopped (task-driver LG-7).
func (s *Shipper) tellLoss() {
	if s.lossTold {
		return
	}
	s.lossTold = true
	s.tell("Some lines of the task logs may be missing: the engine rotated them away before they could be read; raise max-size and max-file of the task's logging config")
}
