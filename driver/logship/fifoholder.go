// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// holderIdle is how long a holder that holds nothing waits for work.
	holderIdle = 2 * time.Second
	// holderSweep is how often a holder looks for pipes that were deleted.
	holderSweep = time.Minute
	// holderMemory makes the runtime of an idle holder collect early, in bytes.
	holderMemory = 16 << 20
)

// HolderMain is the main function of the holder process and returns its exit
// code. It serves until it holds nothing any more; if another holder serves the
// directory it returns at once.
func HolderMain(args []string) int {
	flags := flag.NewFlagSet("log-holder", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the socket")
	patience := flags.Duration("idle", holderIdle, "how long to stay with nothing to hold")
	if err := flags.Parse(args); err != nil || *dir == "" {
		fmt.Fprintln(os.Stderr, "the log holder is started by the task driver; it needs --dir")
		return 2
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	debug.SetGCPercent(20)
	debug.SetMemoryLimit(holderMemory)
	lock, err := lockDir(*dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = lock.Close() }() // the kernel frees the lock in any case
	if err := serveHolder(*dir, *patience); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// lockDir makes this process the directory's only holder.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, holderLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log holder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("log holder: lock: %w", err), f.Close())
	}
	return f, nil
}

// serveHolder listens until nothing is left to hold.
func serveHolder(dir string, patience time.Duration) error {
	path := filepath.Join(dir, holderSocket)
	// We have the lock: a socket there is a dead holder's.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("log holder: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("log holder: %w", err)
	}
	t := newHeldTable(patience)
	go func() {
		defer guard.Log(nil, "watching held pipes")
		t.watch(func() { _ = listener.Close() })
	}()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("log holder: %w", err)
		}
		t.enter()
		go func() {
			defer guard.Log(nil, "serving a client") // the pipes that are held matter more
			defer t.leave()
			defer func() { _ = conn.Close() }() // the client reads what we sent
			t.serve(conn)
		}()
	}
}
