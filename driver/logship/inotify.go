// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// dirEvent is one event of an inotify instance (inotify(7)).
type dirEvent struct {
	mask uint32
	name []byte // of the file in the directory; valid during the call
}

// missed says that the kernel dropped events before this one.
func (e dirEvent) missed() bool { return e.mask&unix.IN_Q_OVERFLOW != 0 }

// inotify is one inotify instance and who wants its events. Safe for concurrent use.
type inotify struct {
	file *os.File

	mu    sync.Mutex // guards everything below
	watch map[int32]func(dirEvent)
}

// newInotify makes an instance; with the flag IN_NONBLOCK Go's poller waits for it.
func newInotify(flag int) (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | flag)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; raise fs.inotify.max_user_instances, or logs are read through the engine", err)
	}
	return &inotify{file: os.NewFile(uintptr(fd), "inotify"), watch: map[int32]func(dirEvent){}}, nil
}

// control runs f with the descriptor. After close it does not.
func (i *inotify) control(f func(fd int)) error {
	raw, err := i.file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	return nil
}

// add has call called for each event of a directory. The result ends that.
func (i *inotify) add(dir string, mask uint32, call func(dirEvent)) (func(), error) {
	var wd int
	var watchErr error
	i.mu.Lock() // no event may come before its entry
	defer i.mu.Unlock()
	err := i.control(func(fd int) { wd, watchErr = unix.InotifyAddWatch(fd, dir, mask|unix.IN_ONLYDIR) })
	if err != nil {
		return nil, err
	}
	if watchErr != nil {
		return nil, fmt.Errorf("inotify on %q: %w; raise fs.inotify.max_user_watches", dir, watchErr)
	}
	i.watch[int32(wd)] = call
	return func() { i.remove(int32(wd)) }, nil
}

func (i *inotify) remove(wd int32) {
	i.mu.Lock()
	_, known := i.watch[wd]
	delete(i.watch, wd)
	i.mu.Unlock()
	if !known {
		return // the kernel drops the watch by itself when the directory is deleted
	}
	_ = i.control(func(fd int) { _, _ = unix.InotifyRmWatch(fd, uint32(wd)) }) // closed
}

// eventHead is the size of an event before its name: watch, mask, cookie and
// the name's length.
const eventHead = unix.SizeofInotifyEvent

// pass hands on what was read.
func (i *inotify) pass(raw []byte) {
	for len(raw) >= eventHead {
		end := eventHead + int(binary.NativeEndian.Uint32(raw[12:]))
		name, _, _ := bytes.Cut(raw[eventHead:end], []byte{0})
		i.passOne(int32(binary.NativeEndian.Uint32(raw)), dirEvent{binary.NativeEndian.Uint32(raw[4:]), name})
		raw = raw[end:]
	}
}

// passOne calls the one that watches; all of them when the kernel dropped events.
func (i *inotify) passOne(wd int32, e dirEvent) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e.missed() {
		for _, call := range i.watch {
			call(e)
		}
		return
	}
	if call := i.watch[wd]; call != nil {
		call(e)
	}
	if e.mask&unix.IN_IGNORED != 0 {
		delete(i.watch, wd)
	}
}
