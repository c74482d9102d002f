// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// openPipe opens a named pipe for reading and writing. That never blocks, and a
// write finds room or waits, whether logmon reads or not: what is in the pipe
// when logmon goes away is there for the next one. The pipe lies in a directory
// that the task may write to, so nothing but a pipe below the directory's parent
// is opened: a link could lead anywhere.
func openPipe(path string) (*os.File, error) {
	dir, err := openLogDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // the opened file stays usable
	f, err := dir.OpenFile(filepath.Base(path), os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("log pipe %q: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&fs.ModeNamedPipe == 0 {
		err = fmt.Errorf("log pipe %q is a %v, not a named pipe; the task may have replaced it: restart the task", path, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReleaseReader shows the reader of a pipe its end although nothing was ever
// written: the collector of a task that did not start would otherwise be waited
// for, two times 2 s. What is no pipe, or has no reader, is left alone.
func ReleaseReader(path string) {
	dir, err := openLogDir(filepath.Dir(path))
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }() // nothing is written
	name := filepath.Base(path)
	if info, err := dir.Lstat(name); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		return
	}
	if f, err := dir.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0); err == nil {
		_ = f.Close() // likewise
	}
}

// openPipes opens both pipes of a container.
func openPipes(stdoutPath, stderrPath string) (ends [streams]*os.File, err error) {
	for i, path := range []string{stdoutPath, stderrPath} {
		if ends[i], err = openPipe(path); err != nil {
			return ends, errors.Join(err, closeAll(ends))
		}
	}
	return ends, nil
}

// openLogDir opens an allocation's log directory without leaving the directory
// above it, which is mounted into the task.
func openLogDir(dir string) (*os.Root, error) {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	defer func() { _ = above.Close() }() // the opened root stays usable
	logs, err := above.OpenRoot(filepath.Base(dir))
	if err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	return logs, nil
}

// pipes writes a container's output to two named pipes and keeps the position in
// a file. Not safe for concurrent use, but for close.
type pipes struct {
	ends [streams]*os.File
	file *positionFile
	pos  position // of the newest record
}

// newPipes takes the open pipes over, also in case of an error.
func newPipes(ends [streams]*os.File, positionPath string) (*pipes, error) {
	file, pos, err := openPositionFile(positionPath)
	if err != nil {
		return nil, errors.Join(err, closeAll(ends))
	}
	return &pipes{ends: ends, file: file, pos: pos}, nil
}

// write puts the chunk into its pipe as room appears, then keeps the position.
// When ctx ends or the pipe is closed, what went in is counted as ahead.
func (p *pipes) write(ctx context.Context, c chunk) error {
	n, err := writeAll(ctx, p.ends[c.stream], c.data)
	if err != nil {
		p.pos.Ahead[c.stream] += int64(n)
		return errors.Join(fmt.Errorf("log pipe: %w", err), p.file.put(p.pos))
	}
	p.pos = c.after
	return p.file.put(p.pos)
}

// deadliner is a file or a connection whose writes can be broken off.
type deadliner interface {
	Write(b []byte) (int, error)
	SetWriteDeadline(t time.Time) error
}

// writeAll writes until all is written, ctx ends or the other side fails.
func writeAll(ctx context.Context, w deadliner, data []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.SetWriteDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			_ = w.SetWriteDeadline(time.Time{})
		}
	}()
	return w.Write(data)
}

const (
	firstFlushPoll = time.Millisecond
	lastFlushPoll  = 50 * time.Millisecond
)

// untilRead asks, ever more slowly, until no bytes wait in the pipes, which means
// that logmon has them all.
func untilRead(ctx context.Context, unread func() (int, error)) error {
	for pause := firstFlushPoll; ; pause = min(2*pause, lastFlushPoll) {
		waiting, err := unread()
		if err != nil || waiting == 0 {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%d bytes wait in the log pipes for logmon: %w", waiting, ctx.Err())
		}
	}
}

// flush waits until logmon has taken everything.
func (p *pipes) flush(ctx context.Context) error { return untilRead(ctx, p.unread) }

// unread is how many bytes wait in the pipes.
func (p *pipes) unread() (int, error) {
	sum := 0
	for _, end := range p.ends {
		raw, err := end.SyscallConn()
		if err != nil {
			return 0, fmt.Errorf("log pipe: %w", err)
		}
		var n int
		var ioctlErr error
		if err := raw.Control(func(fd uintptr) { n, ioctlErr = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
			return 0, fmt.Errorf("log pipe: %w", err)
		}
		if ioctlErr != nil {
			return 0, fmt.Errorf("log pipe: %w", ioctlErr)
		}
		sum += n
	}
	return sum, nil
}

// close lets go of the pipes; a write that waits ends.
func (p *pipes) close() {
	_ = closeAll(p.ends) // nothing is buffered on our side
	p.file.close()
}

func closeAll(ends [streams]*os.File) error {
	var errs []error
	for _, f := range ends {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// deleted says that no directory names the file any more.
func deleted(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	var stat unix.Stat_t
	var statErr error
	err = raw.Control(func(fd uintptr) { statErr = unix.Fstat(int(fd), &stat) })
	return err != nil || statErr != nil || stat.Nlink == 0
}
