// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
)

// fileReader reads the engine's log files of one container directly: several
// times faster than through the engine, without load on it, and not behind a
// busy one. It reads what the engine documents nowhere, so any trouble makes
// the Shipper go on through the engine.
type fileReader struct {
	files  *logFiles
	ended  <-chan struct{} // closed: nothing is written any more
	onLoss func()
	log    hclog.Logger

	first  int64   // time of the first entry of the current file
	offset int64   // of rest in the current file
	buf    *[]byte // lent; nil while nothing waits in it
	rest   []byte  // in buf: what was read and not parsed
	text   []byte  // reused for an entry's data
}

// at is the place behind everything that was parsed.
func (r *fileReader) at() place {
	f, _ := r.files.current()
	return place{Inode: f.inode, First: r.first, Offset: r.offset}
}

// next returns the next entry. It waits for one, and returns io.EOF when the log
// has ended and all is read.
func (r *fileReader) next(ctx context.Context) (entry, error) {
	for {
		if i := bytes.IndexByte(r.rest, '\n'); i >= 0 {
			line := r.rest[:i]
			r.rest, r.offset = r.rest[i+1:], r.offset+int64(i)+1
			e, err := parseLine(line, r.text[:0])
			if err != nil {
				r.log.Warn("skipping what is no log entry", "error", err)
				continue
			}
			r.text = e.data
			if r.first == 0 {
				r.first = e.time
			}
			e.at = r.at()
			return e, nil
		}
		if err := r.fill(ctx); err != nil {
			return entry{}, err
		}
	}
}

// ready says that a whole line waits in the buffer.
func (r *fileReader) ready() bool { return bytes.IndexByte(r.rest, '\n') >= 0 }

// fill reads more bytes, from the next file or after a wait if need be.
func (r *fileReader) fill(ctx context.Context) error {
	f, rotated := r.files.current()
	n, err := r.read(f)
	if n > 0 || err != nil {
		return err
	}
	if !rotated {
		if r.files.retry() {
			return nil
		}
		return r.wait(ctx)
	}
	// Read to its end after we knew that nothing is added.
	r.files.advance()
	r.offset, r.first, r.rest = 0, 0, nil
	return nil
}

// read appends what the file has to the buffer; 0 at its end.
func (r *fileReader) read(f *logFile) (int, error) {
	if r.files.takeLost() {
		r.onLoss()
	}
	if r.buf == nil {
		r.buf = chunkBuffers.Get().(*[]byte)
		r.rest = (*r.buf)[:0]
	}
	// What waits moves to the front; a line that fills the buffer makes it grow.
	held := append((*r.buf)[:0], r.rest...)
	if len(held) > cap(held)/2 {
		held = slices.Grow(held, cap(held))
	}
	n, err := f.file.ReadAt(held[len(held):cap(held)], r.offset+int64(len(held)))
	*r.buf, r.rest = held, held[:len(held)+n]
	if n == 0 && errors.Is(err, io.EOF) {
		return 0, r.checkTruncated(f)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("engine's log file: %w", err)
	}
	return n, nil
}

// checkTruncated notices a log that the engine began anew in the same file, as
// 20.10 does with max-file=1.
func (r *fileReader) checkTruncated(f *logFile) error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("engine's log file: %w", err)
	}
	if info.Size() < r.offset+int64(len(r.rest)) {
		r.onLoss()
		r.offset, r.first, r.rest = 0, 0, (*r.buf)[:0]
	}
	return nil
}

// wait gives the buffer back and waits for a change. After the end of the log it
// returns io.EOF, once all has been looked at again.
func (r *fileReader) wait(ctx context.Context) error {
	if len(r.rest) == 0 {
		r.release()
	}
	select {
	case <-r.files.wake:
		return nil
	default:
	}
	if r.files.vanished() {
		return r.waitGone(ctx)
	}
	select {
	case <-r.files.wake:
		return nil
	case <-r.ended:
		// The token of the last write may come later than the news of the end.
		return r.last()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// goneWait is how long a log without files is given: with max-file=1 engines from
// 23.0 on remove the only file before they make the next.
const goneWait = time.Second

// waitGone waits whether a log that is not there comes back, and else returns
// io.EOF.
func (r *fileReader) waitGone(ctx context.Context) error {
	timer := time.NewTimer(goneWait)
	defer timer.Stop()
	select {
	case <-r.files.wake:
		return nil
	case <-timer.C:
		return io.EOF
	case <-r.ended:
		return r.last()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// last looks for bytes that were written since the last look; there will be no
// more.
func (r *fileReader) last() error {
	f, rotated := r.files.current()
	if rotated || r.files.scan() {
		return nil
	}
	if n, err := r.read(f); n > 0 || err != nil {
		return err
	}
	return io.EOF
}

func (r *fileReader) release() {
	if r.buf == nil {
		return
	}
	if cap(*r.buf) <= 2*chunkSize {
		chunkBuffers.Put(r.buf)
	}
	r.buf, r.rest = nil, nil
	if cap(r.text) > 2*chunkSize {
		r.text = nil
	}
}

func (r *fileReader) close() {
	r.release()
	r.files.close()
}
