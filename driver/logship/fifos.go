// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// FIFOConfig describes the collector "nomad": logmon's named pipes.
type FIFOConfig struct {
	// Stdout and Stderr are the paths of the pipes (TaskConfig.StdoutPath and
	// StderrPath).
	Stdout, Stderr string
	// Container is the full id.
	Container string
	// StateDir holds the position of each container; it belongs to the driver
	// alone.
	StateDir string
	// Holder is the process that does the writing. Nil: this process does, and
	// logmon sees an end when it dies.
	Holder *Holder
	// Logger is nil for no log.
	Logger hclog.Logger
}

// FIFOs returns the Sink that feeds logmon. It opens nothing yet.
func FIFOs(cfg FIFOConfig) Sink {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &fifos{cfg: cfg}
}

// pipeWriter is what writes to the pipes: pipes in this process, or a session
// with the holder.
type pipeWriter interface {
	write(ctx context.Context, c chunk) error
	flush(ctx context.Context) error
	close()
}

// fifos is the Sink. Only discard may run beside another method.
type fifos struct {
	cfg FIFOConfig

	mu     sync.Mutex // guards everything below
	writer pipeWriter // nil while detached
	// own keeps the pipes open on our side too: logmon sees no end while either
	// process lives.
	own [streams]*os.File
}

var _ Sink = (*fifos)(nil)

func (f *fifos) attach(ctx context.Context) (position, error) {
	f.detach()
	if err := os.MkdirAll(f.cfg.StateDir, 0o700); err != nil {
		return position{}, fmt.Errorf("log position: %w", err)
	}
	if f.cfg.Holder == nil {
		return f.attachDirect()
	}
	pos, err := f.attachHeld(ctx)
	if errors.Is(err, errNoHolder) {
		f.cfg.Logger.Warn("the log holder does not start; this process writes the logs itself", "error", err)
		return f.attachDirect()
	}
	return pos, err
}

// attachHeld has the holder open the pipes first: were we first and died before
// it, logmon would see the end.
func (f *fifos) attachHeld(ctx context.Context) (position, error) {
	held, pos, err := f.cfg.Holder.attach(ctx, request{
		Container: f.cfg.Container, Stdout: f.cfg.Stdout, Stderr: f.cfg.Stderr, Position: f.positionPath(),
	})
	if err != nil {
		return position{}, err
	}
	own, err := openPipes(f.cfg.Stdout, f.cfg.Stderr)
	if err != nil {
		held.close()
		return position{}, err
	}
	f.set(held, own)
	return pos, nil
}

func (f *fifos) attachDirect() (position, error) {
	ends, err := openPipes(f.cfg.Stdout, f.cfg.Stderr)
	if err != nil {
		return position{}, err
	}
	direct, err := newPipes(ends, f.positionPath())
	if err != nil {
		return position{}, err
	}
	f.set(direct, [streams]*os.File{})
	return direct.pos, nil
}

func (f *fifos) set(w pipeWriter, own [streams]*os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writer, f.own = w, own
}

// current is the writer in use; nil while detached.
func (f *fifos) current() pipeWriter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writer
}

func (f *fifos) write(ctx context.Context, c chunk) error { return f.current().write(ctx, c) }

func (f *fifos) flush(ctx context.Context) error { return f.current().flush(ctx) }

func (f *fifos) detach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writer != nil {
		f.writer.close()
	}
	_ = closeAll(f.own) // nothing is buffered on our side
	f.writer, f.own = nil, [streams]*os.File{}
}

func (f *fifos) discard() {
	if f.cfg.Holder != nil {
		if err := f.cfg.Holder.drop(f.cfg.Container); err != nil {
			f.cfg.Logger.Warn("log pipes may stay open for a while", "error", err)
		}
	}
	f.detach()
	if err := os.Remove(f.positionPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.cfg.Logger.Warn("log position stays behind", "error", err)
	}
}

func (f *fifos) positionPath() string {
	return positionPath(f.cfg.StateDir, f.cfg.Container)
}

// positionPath is where the position of a container is kept.
func positionPath(stateDir, container string) string {
	return filepath.Join(stateDir, container+".pos")
}
