// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// awaitExec returns when the streams have ended, or with a terminal, whose
// stream background processes keep open, when the lead process has.
func (p *parts) awaitExec(ctx context.Context, id string, tty bool, copied <-chan error) error {
	var leadEnd <-chan time.Time
	if tty {
		poll := time.NewTicker(4 * execPoll)
		defer poll.Stop()
		leadEnd = poll.C
	}
	for {
		select {
		case err := <-copied:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("failed to read the output of exec: %w", err)
			}
			return nil
		case <-leadEnd:
			state, err := p.engine.ExecInspect(ctx, id)
			if err == nil && !state.Running {
				return settle(ctx, copied)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle gives the last output of an ended process the time to arrive.
func settle(ctx context.Context, copied <-chan error) error {
	select {
	case <-copied: //nolint:errcheck // a terminal's stream ends with an error
	case <-time.After(execPoll):
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// execCode asks for the exit code until the engine has it.
func (p *parts) execCode(ctx context.Context, id string) (int, error) {
	deadline := time.Now().Add(execPollLimit)
	for {
		state, err := p.engine.ExecInspect(ctx, id)
		if err == nil && !state.Running {
			return state.ExitCode, nil
		}
		if time.Now().After(deadline) {
			if err == nil {
				err = errors.New("the engine still calls it running")
			}
			return 0, fmt.Errorf("failed to retrieve exec result: %w", err)
		}
		select {
		case <-time.After(execPoll):
		case <-ctx.Done():
			return 0, fmt.Errorf("failed to retrieve exec result: %w", ctx.Err())
		}
	}
}
