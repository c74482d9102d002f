// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// backlogLimit is how many bytes of rotated files are kept for a reader that is
// behind, beyond what the engine keeps.
const backlogLimit = 256 << 20

// place is a place in one of the engine's log files. A file is known by its
// inode and the time of its first entry: an inode alone is soon used again. The
// zero place is unknown.
type place struct {
	Inode  uint64
	First  int64 // ns
	Offset int64 // bytes
}

// logFile is one open file of the engine's log. While it is open its inode
// cannot be used again, and its bytes stay though the engine removes it.
type logFile struct {
	file  *os.File
	inode uint64
	size  int64 // when it was rotated; 0 before
}

// logFiles are the files of one container's log, oldest first, that are still to
// be read. The engine renames the current file ("rotates") and begins a new one.
type logFiles struct {
	path string
	wake chan struct{} // one token: look again

	mu     sync.Mutex // guards everything below
	queue  []*logFile // empty before the log's first file and after close
	found  int        // files that there were when the log was first looked at
	gone   bool       // the log was deleted
	lost   bool       // files went before we had them
	closed bool
}

// openLogFiles opens all files of the log.
func openLogFiles(path string) (*logFiles, error) {
	l := &logFiles{path: path, wake: make(chan struct{}, 1)}
	found, _, err := l.newer(0)
	if err != nil {
		return nil, err
	}
	l.queue, l.found = found, len(found)
	return l, nil
}

// newer opens the files that came after the one with the given inode, oldest
// first; all of them for 0. reached is false when that file is not among the
// engine's any more. Newest first is the order in which nothing can be missed
// while the engine rotates.
func (l *logFiles) newer(than uint64) (found []*logFile, reached bool, err error) {
	for n := 0; ; n++ {
		path := l.path
		if n > 0 {
			path += "." + strconv.Itoa(n)
		}
		f, err := openLogFile(path)
		if errors.Is(err, fs.ErrNotExist) && n > 0 {
			return found, false, nil
		}
		if err != nil {
			closeLogFiles(found)
			return nil, false, err
		}
		if f.inode == than {
			return found, true, f.file.Close()
		}
		if slices.ContainsFunc(found, func(g *logFile) bool { return g.inode == f.inode }) {
			_ = f.file.Close() // rotated while we looked
			continue
		}
		found = slices.Insert(found, 0, f)
	}
}

func openLogFile(path string) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("engine's log file: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return nil, errors.Join(fmt.Errorf("engine's log file %q: %w", path, err), f.Close())
	}
	return &logFile{file: f, inode: stat.Ino}, nil
}

func closeLogFiles(files []*logFile) {
	for _, f := range files {
		_ = f.file.Close() // only read
	}
}

// changed is told by the Watcher. New files are opened at once, however far
// behind the reader is.
func (l *logFiles) changed(filesChanged bool) {
	if filesChanged {
		l.scan()
	}
	select {
	case l.wake <- struct{}{}:
	default: // there is a token already
	}
}

// scan takes new files into the queue. It reports whether there are any.
func (l *logFiles) scan() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if len(l.queue) == 0 {
		return l.begin()
	}
	last := l.queue[len(l.queue)-1]
	found, reached, err := l.newer(last.inode)
	if errors.Is(err, fs.ErrNotExist) {
		// In the middle of a rotation there is no file of that name either, but
		// then ours has another.
		l.gone = deleted(last.file)
		return false
	}
	if err != nil || len(found) == 0 {
		return false
	}
	if info, err := last.file.Stat(); err == nil {
		last.size = info.Size()
	}
	l.lost = l.lost || !reached
	l.queue = append(l.queue, found...)
	l.trim()
	return true
}

// begin takes the files of a log that may not have begun yet. l.mu is held.
func (l *logFiles) begin() bool {
	found, _, err := l.newer(0)
	if err != nil {
		return false
	}
	l.queue, l.found = found, len(found)
	return true
}

// begun says that there are files to read.
func (l *logFiles) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// trim drops the oldest files after the one being read when too much waits. l.mu
// is held.
func (l *logFiles) trim() {
	waiting := int64(0)
	for _, f := range l.queue[1:] {
		waiting += f.size
	}
	for waiting > backlogLimit && len(l.queue) > 2 {
		waiting -= l.queue[1].size
		closeLogFiles(l.queue[1:2])
		l.queue = slices.Delete(l.queue, 1, 2)
		l.lost = true
	}
}

// current is the file being read, and whether it has a successor.
func (l *logFiles) current() (f *logFile, rotated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue[0], len(l.queue) > 1
}

// advance goes on to the next file.
func (l *logFiles) advance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	closeLogFiles(l.queue[:1])
	l.queue = l.queue[1:]
}

// seek drops the files before a known place. It reports false when the place is
// in none of them; then nothing is dropped.
func (l *logFiles) seek(to place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.queue {
		if f.inode == to.Inode && f.first() == to.First {
			closeLogFiles(l.queue[:i])
			l.queue = l.queue[i:]
			return true
		}
	}
	return false
}

// first is the time of the first entry; 0 while there is none.
func (f *logFile) first() int64 {
	const enough = 1 << 20 // an entry is no longer, whatever its escapes
	line, err := bufio.NewReaderSize(f.file, 4096).ReadBytes('\n')
	if _, seekErr := f.file.Seek(0, 0); err != nil || seekErr != nil || len(line) > enough {
		return 0
	}
	e, err := parseLine(line[:len(line)-1], nil)
	if err != nil {
		return 0
	}
	return e.time
}

// takeLost reports, once, that files were missed.
func (l *logFiles) takeLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = false
	return lost
}

// vanished says that the engine deleted the log.
func (l *logFiles) vanished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

func (l *logFiles) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	closeLogFiles(l.queue)
	l.queue, l.closed = nil, true
}
