// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher watches the log directories of containers with a single inotify
// instance and a single goroutine for the whole process: an instance a task
// would soon use up what one user may have. Safe for concurrent use.
type Watcher struct {
	file *os.File

	mu    sync.Mutex // guards everything below
	watch map[int32]func(filesChanged bool)
}

// NewWatcher starts watching nothing.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; raise fs.inotify.max_user_instances, or logs are read through the engine", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "inotify"), watch: map[int32]func(bool){}}
	go w.run()
	return w, nil
}

// Close ends the watches and the goroutine. Shippers that use it must have ended.
func (w *Watcher) Close() error { return w.file.Close() }

const (
	// grown: bytes were added.
	grown = unix.IN_MODIFY
	// moved: files came, went or changed their names. The directory's own end
	// is of no use: it comes after our open files have been closed.
	moved = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE
)

// add calls changed, on the Watcher's goroutine, for each change in a directory:
// with true when there may be other files than before. The result ends that.
func (w *Watcher) add(dir string, changed func(filesChanged bool)) (func(), error) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	var wd int
	var watchErr error
	w.mu.Lock() // no event may come before its entry
	defer w.mu.Unlock()
	err = raw.Control(func(fd uintptr) {
		wd, watchErr = unix.InotifyAddWatch(int(fd), dir, grown|moved|unix.IN_ONLYDIR)
	})
	if err := errors.Join(err, watchErr); err != nil {
		return nil, fmt.Errorf("inotify on %q: %w; raise fs.inotify.max_user_watches", dir, err)
	}
	w.watch[int32(wd)] = changed
	return func() { w.remove(int32(wd)) }, nil
}

func (w *Watcher) remove(wd int32) {
	w.mu.Lock()
	_, known := w.watch[wd]
	delete(w.watch, wd)
	w.mu.Unlock()
	raw, err := w.file.SyscallConn()
	if err != nil || !known {
		return
	}
	// The kernel drops the watch by itself when the directory is deleted.
	_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
}

// eventHead is the size of an event before its name: watch, mask, cookie and
// the name's length.
const eventHead = unix.SizeofInotifyEvent

// run passes events on until Close.
func (w *Watcher) run() {
	buf := make([]byte, 64*1024)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= eventHead; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			b = b[eventHead+int(binary.NativeEndian.Uint32(b[12:])):]
			w.pass(wd, mask)
		}
	}
}

// pass calls the one that watches; all of them when the kernel dropped events.
func (w *Watcher) pass(wd int32, mask uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, changed := range w.watch {
			changed(true)
		}
		return
	}
	if changed := w.watch[wd]; changed != nil {
		changed(mask&grown == 0)
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(w.watch, wd)
	}
}
