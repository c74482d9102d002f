// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// An exec answers no resize before its process runs; the 20.10 engine even
	// blocks for ten seconds (task-driver ES-2).
	resizeRetry = 20 * time.Millisecond
	resizeTries = 100
)

// ExecTaskStreaming runs a command with its streams attached. It returns when
// the lead process has ended, and closes stdout and stderr first.
func (d *Driver) ExecTaskStreaming(ctx context.Context, taskID string, opts *drivers.ExecOptions) (*drivers.ExitResult, error) {
	defer opts.Stdout.Close()
	defer opts.Stderr.Close()
	if len(opts.Command) == 0 {
		return nil, errors.New("command is required but was empty")
	}
	t, p, err := d.running(taskID)
	if err != nil {
		return nil, err
	}
	// The input reader blocks in Read when nobody types; closing it with the RPC
	// frees it. Not when this function returns: a reader closed before the answer
	// is sent turns success into an error (task-driver ES-4).
	context.AfterFunc(ctx, func() { _ = opts.Stdin.Close() })
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()

	code, err := p.exec(inner, t, execRequest{
		command: opts.Command, tty: opts.Tty,
		stdin: opts.Stdin, stdout: opts.Stdout, stderr: opts.Stderr,
		resize: opts.ResizeCh,
	})
	if err != nil {
		return nil, err
	}
	return &drivers.ExitResult{ExitCode: code}, nil
}

// waitingSize is the height and width that a terminal is to have from its start on,
// nil when nobody has told yet: a program may ask for it at once (task-driver ES-2).
func waitingSize(req execRequest) *[2]uint {
	if !req.tty {
		return nil
	}
	select {
	case size, open := <-req.resize:
		if !open {
			return nil
		}
		size = latest(size, req.resize)
		return &[2]uint{uint(size.Height), uint(size.Width)}
	default:
		return nil
	}
}

// followSize applies terminal sizes until ctx ends; of sizes that arrive
// together the latest counts. First is the one of the start, which engines before API
// 1.42 did not take; nil for none.
func (p *parts) followSize(ctx context.Context, execID string, first *[2]uint, sizes <-chan drivers.TerminalSize) {
	defer guard.Log(p.logger, "terminal size")
	if first != nil {
		p.applySize(ctx, execID, *first)
	}
	if sizes == nil {
		return
	}
	for {
		select {
		case size, open := <-sizes:
			if !open {
				return
			}
			size = latest(size, sizes)
			p.applySize(ctx, execID, [2]uint{uint(size.Height), uint(size.Width)})
		case <-ctx.Done():
			return
		}
	}
}

// latest drains what is already waiting.
func latest(size drivers.TerminalSize, sizes <-chan drivers.TerminalSize) drivers.TerminalSize {
	for {
		select {
		case next, open := <-sizes:
			if !open {
				return size
			}
			size = next
		default:
			return size
		}
	}
}

// applySize waits for the process to run and sets its terminal's height and width.
func (p *parts) applySize(ctx context.Context, execID string, size [2]uint) {
	for range resizeTries {
		state, err := p.engine.ExecInspect(ctx, execID)
		if err == nil && state.Running && state.Pid != 0 {
			if p.engine.ExecResize(ctx, execID, size[0], size[1]) == nil {
				return
			}
		}
		select {
		case <-time.After(resizeRetry):
		case <-ctx.Done():
			return
		}
	}
}
