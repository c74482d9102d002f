// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// source yields the entries of a container's log.
type source interface {
	// next returns the next entry, whose data is valid until the call after; it
	// waits for one, and returns io.EOF at the end.
	next(ctx context.Context) (entry, error)
	// ready says that next will not wait.
	ready() bool
	close()
}

// askTimeout limits a question about a container.
const askTimeout = 30 * time.Second

// inspect asks the engine about the container.
func (s *Shipper) inspect(ctx context.Context) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := s.cfg.Engine().ContainerInspect(ctx, s.cfg.Container)
	if err == nil && (info.ContainerJSONBase == nil || info.State == nil) {
		err = errors.New("engine told no state of the container")
	}
	return info, err
}

// readable is the path of the log if its files can be read here: the log driver
// json-file, not compressed, with a file whose name is the container's.
func readable(info container.InspectResponse) (string, bool) {
	if info.HostConfig == nil || info.HostConfig.LogConfig.Type != "json-file" {
		return "", false
	}
	if compress := info.HostConfig.LogConfig.Config["compress"]; compress != "" && compress != "false" {
		return "", false
	}
	if !strings.HasPrefix(filepath.Base(info.LogPath), info.ID) {
		return "", false
	}
	return info.LogPath, logExists(info.LogPath)
}

// fileLimit is how many files the engine keeps of a container's log.
func fileLimit(info container.InspectResponse) int {
	n, err := strconv.Atoi(info.HostConfig.LogConfig.Config["max-file"])
	if err != nil {
		return 1 // the engine's own default
	}
	return n
}

// watchedFiles are the engine's files, kept open while they are rotated away.
type watchedFiles struct {
	*logFiles
	unwatch func()
}

func (w *watchedFiles) close() {
	w.unwatch()
	w.logFiles.close()
}

// openEarly has the files open before the sink is ready, which takes a while on a
// busy machine: a task that prints fast fills several files by then. A failure
// shows again, and is dealt with, when the files are to be read.
func (s *Shipper) openEarly(path string) {
	if s.early != nil {
		return
	}
	if ahead := s.cfg.Ahead; ahead != nil && ahead.path == path {
		s.early = ahead.take()
	}
	if s.early != nil && (s.early.scan() || s.early.begun()) {
		return
	}
	s.closeEarly()
	s.early, _ = watchLogFiles(s.cfg.Watcher, path)
}

// closeEarly closes files that were never read.
func (s *Shipper) closeEarly() {
	if s.early != nil {
		s.early.close()
		s.early = nil
	}
}

// openFiles reads the engine's files from the position on.
func (s *Shipper) openFiles(ctx context.Context, path string) (source, *seeker, error) {
	files := s.early
	s.early = nil
	if files == nil {
		var err error
		if files, err = watchLogFiles(s.cfg.Watcher, path); err != nil {
			return nil, nil, err
		}
	}
	if err := files.awaitFirst(ctx, s.exited); err != nil {
		files.close()
		return nil, nil, err
	}
	r := &fileReader{files: files.logFiles, ended: s.exited, onLoss: s.tellLoss, log: s.log}
	seek := newSeeker(s.pos)
	if at := s.pos.Place; at != (place{}) && files.seek(at) {
		r.first, r.offset = at.First, at.Offset
		seek = newSeeker(position{})
	} else if s.pos.Last == 0 && s.fileLimit > 1 && files.found >= s.fileLimit {
		s.tellLoss() // there may have been more before
	}
	return watched{r, files.unwatch}, seek, nil
}

// watched is a fileReader with its watch.
type watched struct {
	*fileReader
	unwatch func()
}

func (w watched) close() {
	w.unwatch()
	w.fileReader.close()
}

// openStream opens the engine's stream at the position.
func (s *Shipper) openStream(ctx context.Context, how streamKind) (source, *seeker, error) {
	stream, err := openLog(ctx, s.cfg.Engine(), s.cfg.Container, s.pos, how)
	if err != nil {
		if cannotRead(err) {
			err = errNoReading
		}
		return nil, nil, err
	}
	return streamed{newEntryReader(stream, s.cfg.TTY), stream}, newSeeker(s.pos), nil
}

// streamed is an entryReader with its stream.
type streamed struct {
	*entryReader
	stream io.Closer
}

func (s streamed) close() { _ = s.stream.Close() } // only read

// orGone turns "no such container" into the end of its log.
func (s *Shipper) orGone(err error) error {
	if cerrdefs.IsNotFound(err) {
		s.log.Debug("container is gone; its log ends here")
		return nil
	}
	return err
}
