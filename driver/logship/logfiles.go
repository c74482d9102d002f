// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/inotify"

	"github.com/gpu-docker/gpu-docker/guard"
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
	gone   bool       // the log was deleted, as it seemed at the last look
	failed bool       // the last look could not open the files
	lost   bool       // files went before we had them
	closed bool
	// Files that came since the log is watched: how many the kernel told of, and
	// how many we have opened. The telling may lag behind, and does not miss one.
	told, opened int
}

// watchTries limits how often the watch is begun anew because a file came then.
const watchTries = 10

// watchLogFiles opens all files of a log, which may not have begun yet, and
// watches for more. Its directory must exist.
func watchLogFiles(w *Watcher, path string) (*watchedFiles, error) {
	for try := 1; ; try++ {
		newest := inodeOf(path)
		l := &logFiles{path: path, wake: make(chan struct{}, 1)}
		unwatch, err := w.add(filepath.Dir(path), l)
		if err != nil {
			return nil, err
		}
		// Which of the files were there before the watch is known only if none
		// came meanwhile.
		if l.begin() == newest || try == watchTries {
			return &watchedFiles{l, unwatch}, nil
		}
		unwatch()
		l.close()
	}
}

// logExists tells also in the middle of a rotation, when the newest file has its
// new name already and no next one is there.
func logExists(path string) bool { return inodeOf(path) != 0 || inodeOf(path+".1") != 0 }

// inodeOf is 0 for a file that is not there.
func inodeOf(path string) uint64 {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0
	}
	return stat.Ino
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

// grown is told by the Watcher: bytes were added.
func (l *logFiles) grown() {
	select {
	case l.wake <- struct{}{}:
	default: // there is a token already
	}
}

// moved is told by the Watcher: there may be other files than before. New ones
// are opened at once, however far behind the reader is.
func (l *logFiles) moved(e inotify.Event) {
	l.mu.Lock()
	if e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 && string(e.Name) == filepath.Base(l.path) {
		l.told++
	}
	l.look(e.Missed())
	l.mu.Unlock()
	l.grown()
}

// scan takes new files into the queue. It reports whether there are any.
func (l *logFiles) scan() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look(false)
}

// look is scan with l.mu held; uncertain says that the kernel did not tell of all
// files.
func (l *logFiles) look(uncertain bool) bool {
	if l.closed {
		return false
	}
	last := &logFile{}
	if n := len(l.queue); n > 0 {
		last = l.queue[n-1]
	}
	found, reached, err := l.newer(last.inode)
	l.failed = err != nil
	l.gone = errors.Is(err, fs.ErrNotExist) && last.file != nil && deleted(last.file) && !logExists(l.path)
	if err != nil {
		return false
	}
	l.opened += len(found)
	if uncertain {
		l.lost = l.lost || !reached
		l.told = l.opened
	}
	// We have opened what there is: what we were told of beyond that went before.
	if l.told > l.opened {
		l.lost, l.opened = true, l.told
	}
	if len(found) == 0 {
		return false
	}
	if last.file != nil {
		if info, err := last.file.Stat(); err == nil {
			last.size = info.Size()
		}
	}
	l.queue = append(l.queue, found...)
	l.trim()
	return true
}

// begin opens the files that there are, and returns the inode of the newest, 0
// for none.
func (l *logFiles) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A file that came just now was opened by the Watcher already.
	l.look(false)
	l.found, l.opened, l.told = len(l.queue), 0, 0
	if l.found == 0 {
		// In the middle of a rotation those with numbers are opened with the next
		// one, of which we are told.
		l.found = rotated(l.path)
		l.opened = -l.found
		return 0
	}
	return l.queue[l.found-1].inode
}

// rotated counts the files that have numbers.
func rotated(path string) int {
	n := 0
	for inodeOf(path+"."+strconv.Itoa(n+1)) != 0 {
		n++
	}
	return n
}

// begun says that there are files to read.
func (l *logFiles) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// retry looks again if the last look failed, for want of descriptors say, which no
// event would make good. It reports whether there are new files.
func (l *logFiles) retry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed && l.look(false)
}

// awaitFirst waits until there is a file: we may have looked in the middle of a
// rotation. It fails when the log is gone, or has ended so.
func (l *logFiles) awaitFirst(ctx context.Context, ended <-chan struct{}) error {
	none := fmt.Errorf("engine's log file %q: %w", l.path, fs.ErrNotExist)
	for !l.begun() && !l.scan() {
		if !logExists(l.path) {
			return none
		}
		select {
		case <-l.wake:
		case <-ended:
			if l.scan() || l.begun() {
				return nil
			}
			return none
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
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
		left := []*logFile{l.queue[1]}
		go func() { // it frees disk space, for which the Watcher must not wait
			defer guard.Log(nil, "closing a log file")
			closeLogFiles(left)
		}()
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
	done := l.queue[:1]
	l.queue = l.queue[1:]
	l.mu.Unlock()
	closeLogFiles(done) // not before: the disk's space is freed, and the Watcher would wait
}

// seek drops the files before a known place. It reports false when the place is
// in none of them; then nothing is dropped.
func (l *logFiles) seek(to place) bool {
	l.mu.Lock()
	queue := slices.Clone(l.queue)
	l.mu.Unlock()
	// The file is read without the lock, for which the Watcher would wait.
	known := func(f *logFile) bool { return f.inode == to.Inode }
	if i := slices.IndexFunc(queue, known); i < 0 || queue[i].first() != to.First {
		return false
	}
	l.mu.Lock()
	i := slices.IndexFunc(l.queue, known)
	if i < 0 { // dropped meanwhile
		l.mu.Unlock()
		return false
	}
	done := l.queue[:i]
	l.queue = l.queue[i:]
	l.mu.Unlock()
	closeLogFiles(done)
	return true
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
