// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
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

// followSize applies terminal sizes until ctx ends; of sizes that arrive
// together the latest counts.
func (p *parts) followSize(ctx context.Context, execID string, sizes <-chan drivers.TerminalSize) {
	if sizes == nil {
		return
	}
	for {
		select {
		case size, open := <-sizes:
			if !open {
				return
			}
			p.applySize(ctx, execID, latest(size, sizes))
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

// applySize waits for the process to run and sets its terminal's size.
func (p *parts) applySize(ctx context.Context, execID string, size drivers.TerminalSize) {
	for range resizeTries {
		state, err := p.engine.ExecInspect(ctx, execID)
		if err == nil && state.Running && state.Pid != 0 {
			if p.engine.ExecResize(ctx, execID, uint(size.Height), uint(size.Width)) == nil {
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
