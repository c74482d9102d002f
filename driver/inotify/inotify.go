// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package inotify tells what happens to files and directories (inotify(7)). One instance
// serves many of them: what one user may have of instances is soon used up.
package inotify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Event is one event of a watched file or directory.
type Event struct {
	Mask uint32
	Name []byte // of the file in a directory; valid during the call
}

// Missed says that the kernel dropped events before this one.
func (e Event) Missed() bool { return e.Mask&unix.IN_Q_OVERFLOW != 0 }

// Instance is one inotify instance and who wants its events. Its user reads File and
// hands what it read to Pass, or leaves both to Run. Safe for concurrent use.
type Instance struct {
	File *os.File

	mu    sync.Mutex // guards everything below
	watch map[int32]func(Event)
}

// New makes an instance; with the flag IN_NONBLOCK Go's poller waits for it.
func New(flag int) (*Instance, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | flag)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; raise fs.inotify.max_user_instances", err)
	}
	return &Instance{File: os.NewFile(uintptr(fd), "inotify"), watch: map[int32]func(Event){}}, nil
}

// Control runs f with the descriptor. After Close it does not.
func (i *Instance) Control(f func(fd int)) error {
	raw, err := i.File.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	return nil
}

// Add has call called for each event of a file or directory that mask names. The
// result ends that; so does the end of what is watched.
func (i *Instance) Add(path string, mask uint32, call func(Event)) (func(), error) {
	var wd int
	var watchErr error
	i.mu.Lock() // no event may come before its entry
	defer i.mu.Unlock()
	err := i.Control(func(fd int) { wd, watchErr = unix.InotifyAddWatch(fd, path, mask) })
	if err != nil {
		return nil, err
	}
	if errors.Is(watchErr, unix.ENOSPC) {
		return nil, fmt.Errorf("inotify on %q: %w; raise fs.inotify.max_user_watches", path, watchErr)
	}
	if watchErr != nil {
		return nil, fmt.Errorf("inotify on %q: %w", path, watchErr)
	}
	i.watch[int32(wd)] = call
	return func() { i.remove(int32(wd)) }, nil
}

// Watching is how many files and directories are watched.
func (i *Instance) Watching() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.watch)
}

func (i *Instance) remove(wd int32) {
	i.mu.Lock()
	_, known := i.watch[wd]
	delete(i.watch, wd)
	i.mu.Unlock()
	if !known {
		return // the kernel drops the watch by itself when the directory is deleted
	}
	_ = i.Control(func(fd int) { _, _ = unix.InotifyRmWatch(fd, uint32(wd)) }) // closed
}

// Run passes events on until Close. The instance was made with IN_NONBLOCK.
func (i *Instance) Run() {
	buf := make([]byte, 64*1024)
	for {
		n, err := i.File.Read(buf)
		if err != nil {
			return
		}
		i.Pass(buf[:n])
	}
}

// Close ends all watches.
func (i *Instance) Close() error { return i.File.Close() }

// eventHead is the size of an event before its name: watch, mask, cookie and
// the name's length.
const eventHead = unix.SizeofInotifyEvent

// Pass hands on what was read.
func (i *Instance) Pass(raw []byte) {
	for len(raw) >= eventHead {
		end := eventHead + int(binary.NativeEndian.Uint32(raw[12:]))
		name, _, _ := bytes.Cut(raw[eventHead:end], []byte{0})
		i.passOne(int32(binary.NativeEndian.Uint32(raw)), Event{binary.NativeEndian.Uint32(raw[4:]), name})
		raw = raw[end:]
	}
}

// passOne calls the one that watches; all of them when the kernel dropped events.
func (i *Instance) passOne(wd int32, e Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e.Missed() {
		for _, call := range i.watch {
			call(e)
		}
		return
	}
	if call := i.watch[wd]; call != nil {
		call(e)
	}
	if e.Mask&unix.IN_IGNORED != 0 {
		delete(i.watch, wd)
	}
}
