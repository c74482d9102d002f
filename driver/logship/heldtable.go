// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// heldTable is what a holder holds: the pipes of containers.
type heldTable struct {
	patience time.Duration // how long to wait for work with nothing to hold

	mu    sync.Mutex // guards everything below
	held  map[string]*held
	conns int       // open connections
	quiet time.Time // since when there are neither
}

// held is one container's pipes. turn is taken by the one connection that may
// write; it makes the next wait until everything the last one sent is written.
type held struct {
	pipes    *pipes
	turn     chan struct{}
	position string // path
}

func newHeldTable(patience time.Duration) *heldTable {
	return &heldTable{patience: patience, held: map[string]*held{}, quiet: time.Now()}
}

func (t *heldTable) enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns++
}

func (t *heldTable) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns--
	t.quiet = time.Now()
}

// watch calls end when nothing is left to hold, and in between lets go of
// pipes whose files are gone.
func (t *heldTable) watch(end func()) {
	idle, sweep := time.NewTicker(max(t.patience/2, time.Millisecond)), time.NewTicker(holderSweep)
	defer idle.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-sweep.C:
			t.sweep()
		case now := <-idle.C:
			if t.idle(now) {
				end()
				return
			}
		}
	}
}

// idle says that nothing is held and nobody came for a while.
func (t *heldTable) idle(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns == 0 && len(t.held) == 0 && now.Sub(t.quiet) >= t.patience
}

// serve answers one connection.
func (t *heldTable) serve(conn net.Conn) {
	var req request
	if err := receiveLine(conn, &req); err != nil {
		return
	}
	switch {
	case req.Version != protocolVersion:
		answer(conn, reply{Error: fmt.Sprintf("protocol version %d is not %d", req.Version, protocolVersion)})
	case req.Op == opAttach:
		t.attach(conn, req)
	case req.Op == opDrop:
		t.drop(req.Container)
		answer(conn, reply{})
	case req.Op == opList:
		answer(conn, reply{Held: t.list()})
	default:
		answer(conn, reply{Error: fmt.Sprintf("unknown request %q", req.Op)})
	}
}

// answer sends a reply; a client that is gone gets none.
func answer(conn net.Conn, r reply) { _ = sendLine(conn, r) }

// attach writes for one client until it goes.
func (t *heldTable) attach(conn net.Conn, req request) {
	h, err := t.take(req)
	if err != nil {
		answer(conn, reply{Error: err.Error()})
		return
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	answer(conn, reply{Position: h.pipes.pos.encode()})
	h.relay(conn)
}

// take finds or makes the entry of a container. Pipes that were made anew
// replace the held ones.
func (t *heldTable) take(req request) (*held, error) {
	ends, err := openPipes(req.Stdout, req.Stderr)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[req.Container]; h != nil {
		if samePipes(h.pipes.ends, ends) {
			return h, closeAll(ends)
		}
		h.pipes.close()
		delete(t.held, req.Container)
	}
	p, err := newPipes(ends, req.Position)
	if err != nil {
		return nil, err
	}
	h := &held{pipes: p, turn: make(chan struct{}, 1), position: req.Position}
	t.held[req.Container] = h
	return h, nil
}

// samePipes compares what two sets of descriptors stand for.
func samePipes(a, b [streams]*os.File) bool {
	for i := range a {
		x, errX := a[i].Stat()
		y, errY := b[i].Stat()
		if errX != nil || errY != nil || !os.SameFile(x, y) {
			return false
		}
	}
	return true
}

// drop closes the pipes of a container; a write that waits ends.
func (t *heldTable) drop(container string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[container]; h != nil {
		h.pipes.close()
		delete(t.held, container)
		t.quiet = time.Now()
	}
}

func (t *heldTable) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.held))
}

// sweep drops pipes that were deleted with their allocation: no logmon can open
// them any more.
func (t *heldTable) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for container, h := range t.held {
		if !deleted(h.pipes.ends[stdout]) {
			continue
		}
		h.pipes.close()
		_ = os.Remove(h.position) // nobody will ask for it
		delete(t.held, container)
		t.quiet = time.Now()
	}
}

// relay carries messages from the client to the pipes. What did not arrive whole
// is not written; what did is, even when the client is gone.
func (h *held) relay(conn net.Conn) {
	for {
		m, err := readHead(conn)
		if err != nil {
			return
		}
		switch m.kind {
		case msgWrite:
			err = h.deliver(conn, m)
		case msgUnread:
			err = h.countUnread(conn)
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

// deliver reads the rest of a message and writes it.
func (h *held) deliver(conn io.Reader, m head) error {
	buf := chunkBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*chunkSize {
			chunkBuffers.Put(buf)
		}
	}()
	total := m.positionLen + m.dataLen
	*buf = slices.Grow((*buf)[:0], total)[:total]
	if _, err := io.ReadFull(conn, *buf); err != nil {
		return err
	}
	after, err := decodePosition((*buf)[:m.positionLen])
	if err != nil {
		return err
	}
	return h.pipes.write(context.Background(), chunk{stream: int(m.stream), data: (*buf)[m.positionLen:], after: after})
}

func (h *held) countUnread(conn io.Writer) error {
	n, err := h.pipes.unread()
	if err != nil {
		return err
	}
	_, err = conn.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	return err
}
