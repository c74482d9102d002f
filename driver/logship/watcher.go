// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/inotify"
	"github.com/gpu-docker/gpu-docker/guard"
)

// Watcher watches the log directories of all containers of the process: an
// inotify instance a task would soon use up what one user may have. Safe for
// concurrent use.
//
// It has two instances. Bytes that are added come at any rate, and a late look
// at them costs nothing. A file that came must be opened before the engine
// removes it, which is 2 x 2 MB later by default, some 200 ms for a task that does
// nothing but print; so that has a thread of its own, which the kernel prefers.
type Watcher struct {
	grown  *inotify.Instance
	moved  *inotify.Instance
	stop   *os.File      // eventfd, readable after Close
	closed chan struct{} // the thread has ended

	begun      chan struct{} // the thread runs
	preferring error         // why it is not preferred; read only after begun
}

const (
	grownMask = unix.IN_MODIFY | unix.IN_ONLYDIR
	// movedMask: files came, went or changed their names. The directory's own
	// end is of no use: it comes after our open files have been closed.
	movedMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_ONLYDIR
	// movedNice is the priority of the thread, which works for some 50 us a
	// file: above what the tasks and the engine have. On a machine of two busy
	// processors the kernel let a thread of the usual priority wait for 115 ms.
	movedNice = -20
)

// leastProcessors is how many threads may run Go code at least. A thread that
// comes back from the kernel must get a turn of Go's scheduler as well, and on a
// small machine busy goroutines have them all.
const leastProcessors = 16

// NewWatcher starts watching nothing. It raises GOMAXPROCS of a process on a
// machine with few processors. The logger is for faults of our own.
func NewWatcher(logger hclog.Logger) (*Watcher, error) {
	if runtime.GOMAXPROCS(0) < leastProcessors {
		runtime.GOMAXPROCS(leastProcessors)
	}
	w := &Watcher{closed: make(chan struct{}), begun: make(chan struct{})}
	var err error
	if w.grown, err = inotify.New(unix.IN_NONBLOCK); err != nil {
		return nil, err
	}
	if w.moved, err = inotify.New(0); err != nil {
		return nil, errors.Join(err, w.grown.Close())
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), w.grown.Close(), w.moved.Close())
	}
	w.stop = os.NewFile(uintptr(stop), "eventfd")
	go func() {
		defer guard.Log(logger, "following log files")
		w.grown.Run()
	}()
	go func() {
		defer guard.Log(logger, "opening log files")
		w.runMoved()
	}()
	return w, nil
}

// Preferred is nil when the kernel prefers the thread that opens new files, and
// else why it does not (setpriority(2)): then that is as late as any other work of
// a busy machine.
func (w *Watcher) Preferred() error {
	<-w.begun
	if w.preferring != nil {
		return fmt.Errorf("nice %d: %w; give the agent CAP_SYS_NICE", movedNice, w.preferring)
	}
	return nil
}

// Close ends the watches. Shippers that use it must have ended.
func (w *Watcher) Close() error {
	_, err := w.stop.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	if err == nil {
		<-w.closed
	}
	return errors.Join(err, w.grown.Close(), w.moved.Close(), w.stop.Close())
}

// add has l told of all changes in its directory, by the Watcher's goroutines.
// The result ends that.
func (w *Watcher) add(dir string, l *logFiles) (func(), error) {
	unwatchGrown, err := w.grown.Add(dir, grownMask, func(inotify.Event) { l.grown() })
	if err != nil {
		return nil, err
	}
	unwatchMoved, err := w.moved.Add(dir, movedMask, l.moved)
	if err != nil {
		unwatchGrown()
		return nil, err
	}
	return func() { unwatchGrown(); unwatchMoved() }, nil
}

// runMoved passes on until Close. The goroutine does not give its thread back,
// which ends with it, and waits in the kernel and not in Go's poller: that looks
// after its descriptors when a thread of the process has nothing else to do.
func (w *Watcher) runMoved() {
	defer close(w.closed)
	runtime.LockOSThread()
	w.preferring = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), movedNice)
	close(w.begun)
	buf := make([]byte, 64*1024)
	fds := []unix.PollFd{{Fd: int32(w.stop.Fd()), Events: unix.POLLIN}, {Events: unix.POLLIN}}
	_ = w.moved.Control(func(fd int) { fds[1].Fd = int32(fd) }) // open until we have ended
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue // nothing is readable, and a read would wait past Close
		}
		if err != nil || fds[0].Revents != 0 {
			return
		}
		n, err := unix.Read(int(fds[1].Fd), buf)
		if err == nil {
			w.moved.Pass(buf[:n])
		}
	}
}
