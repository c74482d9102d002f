// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// pipeRig is a pair of pipes, a holder and a reader.
type pipeRig struct {
	cfg FIFOConfig
	out *os.File // the reader's end of stdout
}

func newPipeRig(t *testing.T) *pipeRig {
	t.Helper()
	root, err := os.MkdirTemp("", "logship") // short: a socket lies below
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.RemoveAll(root)) })
	logs := filepath.Join(root, "alloc", "logs")
	must.NoError(t, os.MkdirAll(logs, 0o700))
	cfg := FIFOConfig{
		Stdout: logs + "/.t.stdout.fifo", Stderr: logs + "/.t.stderr.fifo", Container: "c", StateDir: root + "/state",
		Holder: NewHolder(HolderConfig{Dir: root + "/h", Command: holderCommand()}),
	}
	must.NoError(t, unix.Mkfifo(cfg.Stdout, 0o600))
	must.NoError(t, unix.Mkfifo(cfg.Stderr, 0o600))
	t.Cleanup(func() { holderGone(t, root+"/h") })
	reader, err := os.OpenFile(cfg.Stdout, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, reader.Close()) })
	return &pipeRig{cfg: cfg, out: reader}
}

// read reads n bytes as logmon would.
func (r *pipeRig) read(t *testing.T, n int) string {
	t.Helper()
	must.NoError(t, r.out.SetReadDeadline(time.Now().Add(30*time.Second)))
	buf := make([]byte, n)
	_, err := io.ReadFull(r.out, buf)
	must.NoError(t, err)
	return string(buf)
}

// holderPID finds the holder of a directory.
func holderPID(t *testing.T, dir string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must.NoError(t, err)
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte("log-holder")) && bytes.HasSuffix(text, []byte(dir+"\x00")) {
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			must.NoError(t, err)
			return pid
		}
	}
	t.Fatal("no holder runs")
	return 0
}

// task-driver LG-3, PL-9: the holder has its own session and nothing of ours
// open; it keeps the pipe open and the position while clients come and go, and
// ends when it holds nothing.
func TestHolder(t *testing.T) {
	r := newPipeRig(t)
	first := FIFOs(r.cfg)
	pos, err := first.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, position{}, pos)
	pos.Last = 7
	must.NoError(t, first.write(t.Context(), chunk{data: []byte("hello"), after: pos}))
	must.Eq(t, "hello", r.read(t, 5))
	must.NoError(t, first.flush(t.Context()))

	dir := r.cfg.Holder.cfg.Dir
	pid := holderPID(t, dir)
	session, err := unix.Getsid(pid)
	must.NoError(t, err)
	must.Eq(t, pid, session)
	for fd := range 3 {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		must.NoError(t, err)
		must.Eq(t, os.DevNull, to)
	}

	first.detach()
	must.NoError(t, r.out.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = r.out.Read(make([]byte, 1)) // no end: the deadline passes
	must.ErrorIs(t, err, os.ErrDeadlineExceeded)
	held, err := r.cfg.Holder.Held(t.Context())
	must.NoError(t, err)
	must.Eq(t, []string{"c"}, held)

	second := FIFOs(r.cfg)
	pos, err = second.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, 7, pos.Last)
	second.discard()
	must.NoError(t, r.out.SetReadDeadline(time.Time{}))
	n, err := r.out.Read(make([]byte, 1))
	must.Eq(t, 0, n)
	must.ErrorIs(t, err, io.EOF)
	holderGone(t, dir)
}

// What a client sent in part is not written; what it sent whole is, even though
// the client is gone and the pipe was full.
func TestHolderCompletesMessages(t *testing.T) {
	r := newPipeRig(t)
	sink := FIFOs(r.cfg).(*fifos)
	pos, err := sink.attach(t.Context())
	must.NoError(t, err)
	whole := bytes.Repeat([]byte("w"), 100_000) // more than the pipe takes
	pos.Last = 1
	must.NoError(t, sink.write(t.Context(), chunk{data: whole, after: pos}))
	half := putHead(msgWrite, stdout, len(pos.encode()), 10)
	_, err = sink.current().(*session).conn.Write(append(append(half, pos.encode()...), "half"...))
	must.NoError(t, err)
	sink.detach()
	must.Eq(t, string(whole), r.read(t, len(whole)))

	next := FIFOs(r.cfg)
	pos, err = next.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, 1, pos.Last)
	must.NoError(t, next.write(t.Context(), chunk{data: []byte("next"), after: pos}))
	must.Eq(t, "next", r.read(t, 4))
	next.discard()
}

// A killed holder is replaced; the position comes from its file.
func TestHolderIsKilled(t *testing.T) {
	r := newPipeRig(t)
	sink := FIFOs(r.cfg)
	pos, err := sink.attach(t.Context())
	must.NoError(t, err)
	pos.Last = 1
	must.NoError(t, sink.write(t.Context(), chunk{data: []byte("one"), after: pos}))
	must.NoError(t, sink.flush(contextSoon(t, func() { r.read(t, 3) })))
	dir := r.cfg.Holder.cfg.Dir
	pid := holderPID(t, dir)
	must.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "a write that fails", func() bool {
		return sink.write(t.Context(), chunk{data: []byte("lost"), after: pos}) != nil
	})
	pos, err = sink.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, 1, pos.Last)
	must.NotEq(t, pid, holderPID(t, dir))
	must.NoError(t, sink.write(t.Context(), chunk{data: []byte("two"), after: pos}))
	must.Eq(t, "two", r.read(t, 3))
	sink.discard()
}

// contextSoon runs f beside the caller and returns a context for it.
func contextSoon(t *testing.T, f func()) context.Context {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t.Cleanup(func() { <-done })
	return t.Context()
}

// Closing a task whose logmon is gone ends a write that waits for room.
func TestDropEndsBlockedWrite(t *testing.T) {
	r := newPipeRig(t)
	sink := FIFOs(r.cfg)
	pos, err := sink.attach(t.Context())
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for err == nil { // pipe, holder and connection fill up
		err = sink.write(ctx, chunk{data: make([]byte, 60_000), after: pos})
	}
	must.ErrorIs(t, err, os.ErrDeadlineExceeded)
	sink.discard()
	held, err := r.cfg.Holder.Held(t.Context())
	must.NoError(t, err)
	must.SliceEmpty(t, held)
}

// Without a holder this process writes, and counts what went in of a write that
// was broken off.
func TestDirectPipes(t *testing.T) {
	r := newPipeRig(t)
	for _, command := range [][]string{nil, {"/nonexistent/program"}} {
		if command == nil {
			r.cfg.Holder = nil
		} else {
			r.cfg.Holder = NewHolder(HolderConfig{Dir: filepath.Dir(r.cfg.StateDir) + "/h", Command: command})
		}
		sink := FIFOs(r.cfg)
		pos, err := sink.attach(t.Context())
		must.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err = sink.write(ctx, chunk{data: bytes.Repeat([]byte("w"), 100_000), after: pos})
		cancel()
		must.ErrorIs(t, err, os.ErrDeadlineExceeded)
		pos, err = sink.attach(t.Context())
		must.NoError(t, err)
		must.Between(t, 4096, pos.Ahead[stdout], 99_999)
		must.Eq(t, strings.Repeat("w", int(pos.Ahead[stdout])), r.read(t, int(pos.Ahead[stdout])))
		must.NoError(t, sink.flush(t.Context()))
		sink.discard()
	}
}

func TestHolderRefuses(t *testing.T) {
	r := newPipeRig(t)
	conn, err := r.cfg.Holder.reach(t.Context())
	must.NoError(t, err)
	_, err = r.cfg.Holder.call(t.Context(), conn, request{Op: "dance"})
	must.ErrorContains(t, err, `unknown request "dance"`)
	must.NoError(t, conn.Close())
	r.cfg.Stdout += ".missing"
	_, err = FIFOs(r.cfg).attach(t.Context())
	must.ErrorContains(t, err, "no such file")
	must.Eq(t, 2, HolderMain(nil))
}
