// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// DriverName is the name of the Docker volume driver and of its socket.
const DriverName = "nvidia-docker"

// DefaultSocketDir is where the engine looks for sockets of plugins.
const DefaultSocketDir = "/run/docker/plugins"

// SocketTakenError says that another live process serves the volume driver.
type SocketTakenError struct {
	Path string
	PID  int // of the other process; 0 when the kernel does not tell
}

// Error names the socket and its owner.
func (e *SocketTakenError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("socket %q is served by another process; stop it first if this process shall serve the driver volume", e.Path)
	}
	return fmt.Sprintf("socket %q is served by process %d; stop it first if this process shall serve the driver volume", e.Path, e.PID)
}

// SocketPath is the volume driver's socket in a directory of plugins.
func SocketPath(dir string) string { return filepath.Join(dir, DriverName+".sock") }

// ListenSocket opens the volume driver's socket in dir, which is made with mode
// 0700 when it is absent. The socket gets its name only once it accepts, so the
// engine never finds a dead one of ours; one that a dead process left is
// replaced, one of a living process is left alone: *SocketTakenError. Close
// removes the socket, unless another process has put its own there meanwhile.
func ListenSocket(dir string) (net.Listener, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of the volume socket: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	name := SocketPath(dir)
	if err := clearSocket(name); err != nil {
		return nil, err
	}
	return bindSocket(dir, name)
}

// lockDir keeps two processes from looking at one stale socket at once.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the volume socket: %w", err)
	}
	if err := flock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %q: %w", dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// clearSocket removes a socket that nobody serves.
func clearSocket(name string) error {
	fi, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("volume socket: %w", err)
	}
	if fi.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%q is %v, not a socket; remove it", name, fi.Mode())
	}
	c, err := net.Dial("unix", name)
	if err == nil {
		taken := &SocketTakenError{Path: name, PID: peerPID(c)}
		_ = c.Close()
		return taken
	}
	if errors.Is(err, unix.EAGAIN) { // somebody listens, with a full queue
		return &SocketTakenError{Path: name}
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("find out who serves socket %q: %w", name, err)
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("remove stale volume socket: %w", err)
	}
	return nil
}

// peerPID asks the kernel who is at the other end.
func peerPID(c net.Conn) int {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// bindSocket listens under a name that the engine does not look at, then renames.
func bindSocket(dir, name string) (net.Listener, error) {
	temp, err := os.MkdirTemp(dir, ".nvidia-docker-")
	if err != nil {
		return nil, fmt.Errorf("volume socket: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // an empty directory, or one with a socket that nobody serves
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(temp, "s"), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("volume socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(filepath.Join(temp, "s"), 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(temp, "s"), name)
	}
	var fi fs.FileInfo
	if err == nil {
		fi, err = os.Lstat(name)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("volume socket: %w", err), l.Close())
	}
	return &socketListener{UnixListener: l, name: name, file: fi}, nil
}

// socketListener removes its socket when it is closed, once.
type socketListener struct {
	*net.UnixListener
	name string
	file fs.FileInfo
	once sync.Once
}

// Close ends listening. The name goes first, so that the engine finds no dead socket.
func (l *socketListener) Close() error {
	l.once.Do(func() {
		if unlock, err := lockDir(filepath.Dir(l.name)); err == nil {
			defer unlock()
		}
		if fi, err := os.Lstat(l.name); err == nil && os.SameFile(fi, l.file) {
			_ = os.Remove(l.name)
		}
	})
	return l.UnixListener.Close()
}
