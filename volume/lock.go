// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes this call the only one that changes the store's directories, among
// the goroutines of this process and among processes. The lock of a process
// that dies is free at once. It returns early with ctx's error.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another build of the driver volume: %w", ctx.Err())
	}
	file, err := s.lockFile(ctx)
	if err != nil {
		<-s.turn
		return nil, err
	}
	return func() {
		_ = file.Close() // gives the lock back
		<-s.turn
	}, nil
}

// lockFile locks against other processes. The wait itself cannot be
// interrupted, so on ctx's end it is left to a goroutine that lets go as soon
// as it has the lock.
func (s *Store) lockFile(ctx context.Context) (*os.File, error) {
	if err := makeDir(s.state); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(s.state, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the driver volumes: %w", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- flock(file) }()
	select {
	case err := <-locked:
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("lock %q: %w", file.Name(), err)
		}
		return file, nil
	case <-ctx.Done():
		go func() { _ = errors.Join(<-locked, file.Close()) }()
		return nil, fmt.Errorf("wait for another process that builds the driver volume: %w", ctx.Err())
	}
}

func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}
