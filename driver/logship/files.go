// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"
)

// FilesConfig describes the collector "driver": rotated files as logmon writes
// them.
type FilesConfig struct {
	// Dir is the allocation's log directory.
	Dir string
	// Task names the files: <Task>.stdout.<n> and <Task>.stderr.<n>.
	Task string
	// MaxFiles is how many files of each stream stay; at least 1.
	MaxFiles int
	// MaxFileSizeMiB is the limit of one file in MiB; at least 1.
	MaxFileSizeMiB int
	// Container is the full id.
	Container string
	// StateDir holds the position of each container; it belongs to the driver
	// alone.
	StateDir string
	// Logger is nil for no log.
	Logger hclog.Logger
}

// Files returns the Sink that writes rotated files. It opens nothing yet.
func Files(cfg FilesConfig) Sink {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &files{cfg: cfg}
}

// files is the Sink. The files themselves tell how much was delivered beyond the
// newest position: a new process ships that much less.
type files struct {
	cfg  FilesConfig
	file *positionFile // nil while detached
	out  [streams]*rotator
}

var _ Sink = (*files)(nil)

// streamNames are the middle parts of the files' names.
var streamNames = [streams]string{stdout: "stdout", stderr: "stderr"}

func (f *files) attach(context.Context) (position, error) {
	f.detach()
	if err := os.MkdirAll(f.cfg.StateDir, 0o700); err != nil {
		return position{}, fmt.Errorf("log position: %w", err)
	}
	file, pos, err := openPositionFile(positionPath(f.cfg.StateDir, f.cfg.Container))
	if err != nil {
		return position{}, err
	}
	isNew := file.seq == 0
	f.file = file
	for i := range f.out {
		if f.out[i], err = openRotator(f.cfg, streamNames[i]); err != nil {
			f.detach()
			return position{}, err
		}
		if !isNew {
			pos.Ahead[i] += f.out[i].since(pos.Files[i])
		}
	}
	// From here on only what this container writes counts as ahead.
	if err := f.keep(&pos); err != nil {
		f.detach()
		return position{}, err
	}
	return pos, nil
}

// keep records a position together with the ends of the files.
func (f *files) keep(pos *position) error {
	for i, r := range f.out {
		pos.Files[i] = r.end()
	}
	return f.file.put(*pos)
}

func (f *files) write(_ context.Context, c chunk) error {
	if err := f.out[c.stream].write(c.data); err != nil {
		return err
	}
	return f.keep(&c.after)
}

// flush has nothing to do: nothing is held back.
func (f *files) flush(context.Context) error { return nil }

func (f *files) detach() {
	for i, r := range f.out {
		if r != nil {
			r.close()
		}
		f.out[i] = nil
	}
	if f.file != nil {
		f.file.close()
		f.file = nil
	}
}

func (f *files) discard() {
	f.detach()
	if err := os.Remove(positionPath(f.cfg.StateDir, f.cfg.Container)); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.cfg.Logger.Warn("log position stays behind", "error", err)
	}
}
