// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lineReserve is the room that a line must find whose end is not there yet, in
// bytes, if a file is that large: longer lines may be split between files.
const lineReserve = 1 << 20

// rotator appends to the newest of a stream's files and begins the next one
// before a line that does not fit.
type rotator struct {
	dir      *os.Root
	prefix   string // "<task>.stdout."
	maxFiles int
	maxSize  int64

	file    *os.File
	index   uint32
	size    int64
	midLine bool // the file does not end with a line feed
}

// openRotator opens the newest file, or makes the first one.
func openRotator(cfg FilesConfig, stream string) (*rotator, error) {
	dir, err := openLogDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	r := &rotator{
		dir: dir, prefix: cfg.Task + "." + stream + ".",
		maxFiles: max(cfg.MaxFiles, 1), maxSize: int64(max(cfg.MaxFileSizeMiB, 1)) << 20,
	}
	indexes, err := r.indexes()
	if err == nil {
		if len(indexes) > 0 {
			r.index = indexes[len(indexes)-1]
		}
		err = r.open()
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return r, nil
}

func (r *rotator) name(index uint32) string {
	return r.prefix + strconv.FormatUint(uint64(index), 10)
}

// indexes lists the numbers of the stream's files, in order.
func (r *rotator) indexes() ([]uint32, error) {
	entries, err := fs.ReadDir(r.dir.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	var found []uint32
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), r.prefix)
		if n, err := strconv.ParseUint(number, 10, 32); ours && err == nil {
			found = append(found, uint32(n))
		}
	}
	slices.Sort(found)
	return found, nil
}

// open opens the file of the current index. The directory belongs to the task:
// anything but a plain file is refused.
func (r *rotator) open() error {
	name := r.name(r.index)
	f, err := r.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("log file %q is no regular file; the task may have replaced it: remove it", name)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size, r.midLine = f, info.Size(), false
	if r.size > 0 {
		var last [1]byte
		_, err = f.ReadAt(last[:], r.size-1)
		r.midLine = last[0] != '\n'
	}
	return err
}

// end is where the output ends now.
func (r *rotator) end() fileEnd { return fileEnd{Index: r.index, Size: r.size} }

// since is how many bytes were written after an earlier end.
func (r *rotator) since(was fileEnd) int64 {
	sum := -was.Size
	for i := was.Index; i <= r.index; i++ {
		if info, err := r.dir.Lstat(r.name(i)); err == nil {
			sum += info.Size()
		}
	}
	return max(sum, 0)
}

// write appends data, all of it unless it returns an error; then since tells how
// much is there.
func (r *rotator) write(data []byte) error {
	for len(data) > 0 {
		n := r.fitting(data)
		if n == 0 {
			if err := r.rotate(); err != nil {
				return err
			}
			continue
		}
		written, err := r.file.Write(data[:n])
		r.size += int64(written)
		if written > 0 {
			r.midLine = data[written-1] != '\n'
		}
		if err != nil {
			return fmt.Errorf("log file: %w", err)
		}
		data = data[n:]
	}
	return nil
}

// fitting is how much of data goes into the current file: whole lines, and a
// beginning without its end if there is room for a fair length. 0 means rotate.
func (r *rotator) fitting(data []byte) int {
	room := r.maxSize - r.size
	if room <= 0 {
		return 0
	}
	n := int(min(room, int64(len(data))))
	lines := bytes.LastIndexByte(data[:n], '\n') + 1
	switch {
	case lines == len(data):
		return n // ends with a line, all fits
	case lines > 0:
		return lines // the rest is looked at next
	case r.midLine:
		return n // goes on with a line that began here
	case n == len(data) && room >= min(lineReserve, r.maxSize/2):
		return n // a line without an end yet
	case r.size == 0:
		return n // longer than any file
	}
	return 0
}

// rotate begins the next file and removes the oldest ones.
func (r *rotator) rotate() error {
	old := r.file
	r.index++
	if err := r.open(); err != nil {
		r.index--
		r.file = old
		return err
	}
	if r.size >= r.maxSize { // left there by someone else
		return old.Close()
	}
	return errors.Join(old.Close(), r.purge())
}

// purge removes all but the newest maxFiles files.
func (r *rotator) purge() error {
	indexes, err := r.indexes()
	if err != nil {
		return err
	}
	for _, i := range indexes {
		if i+uint32(r.maxFiles) > r.index {
			break
		}
		if err := r.dir.RemoveAll(r.name(i)); err != nil {
			return fmt.Errorf("log file: %w", err)
		}
	}
	return nil
}

func (r *rotator) close() {
	_ = r.file.Close() // every byte was written already
	_ = r.dir.Close()
}
