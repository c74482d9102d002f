// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// finalError ends Eventually at once.
type finalError struct{ err error }

func (e finalError) Error() string { return e.err.Error() }
func (e finalError) Unwrap() error { return e.err }

// Final marks an error that waiting cannot mend.
func Final(err error) error { return finalError{err} }

// Eventually asks until the check succeeds, it fails for good, or the limit is
// reached; the last failure is then the error.
func Eventually(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		var final finalError
		if err == nil || errors.As(err, &final) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-tick.C:
		}
	}
}
