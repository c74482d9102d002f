// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	holderSocket = "holder.sock"
	holderLock   = "holder.lock"
	// holderStart limits how long a holder may take until it answers.
	holderStart = 10 * time.Second
	// holderRetry is the pause between attempts to reach a starting holder.
	holderRetry = 20 * time.Millisecond
	// dropTimeout limits the call that lets the holder drop a container.
	dropTimeout = 5 * time.Second
)

// errNoHolder says that no holder can be had.
var errNoHolder = errors.New("log holder cannot be started")

// HolderConfig says where the node's holder is and how to start it.
type HolderConfig struct {
	// Dir holds the socket; it belongs to the driver alone. Keep it short: a
	// socket's path has 107 bytes at most.
	Dir string
	// Command starts a holder: a program and arguments that make it call
	// HolderMain; "--dir" and Dir are added. Usually this very program with a
	// sub-command.
	Command []string
	// Logger is nil for no log.
	Logger hclog.Logger
}

// Holder starts the node's holder when needed and speaks to it. Safe for
// concurrent use. It needs no Close: the holder ends by itself.
type Holder struct {
	cfg HolderConfig

	starting sync.Mutex // one attempt to start at a time
}

// NewHolder neither starts nor asks a holder yet.
func NewHolder(cfg HolderConfig) *Holder {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Holder{cfg: cfg}
}

// dial reaches the holder that runs.
func (h *Holder) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join(h.cfg.Dir, holderSocket))
}

// reach dials the holder and starts one if none answers.
func (h *Holder) reach(ctx context.Context) (net.Conn, error) {
	if conn, err := h.dial(ctx); err == nil {
		return conn, nil
	}
	h.starting.Lock()
	defer h.starting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, holderStart)
	defer cancel()
	tick := time.NewTicker(holderRetry)
	defer tick.Stop()
	var exited <-chan struct{}
	for {
		conn, err := h.dial(ctx)
		if err == nil {
			return conn, nil
		}
		if exited == nil || closed(exited) { // one that ended by itself may have been in our way
			if exited, err = h.start(); err != nil {
				return nil, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: no answer at %q: %w", errNoHolder, filepath.Join(h.cfg.Dir, holderSocket), err)
		}
	}
}

// start runs a holder in a session of its own, with nothing of ours open
// (task-driver PL-9). The channel is closed when it has ended.
func (h *Holder) start() (<-chan struct{}, error) {
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoHolder, err)
	}
	args := slices.Concat(h.cfg.Command, []string{"--dir", h.cfg.Dir})
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // not the handshake of the plugin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoHolder, err)
	}
	h.cfg.Logger.Debug("started the log holder", "pid", cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		defer guard.Log(h.cfg.Logger, "waiting for the log holder")
		defer close(exited)
		_ = cmd.Wait() // it ends when it holds nothing, or when another was there first
	}()
	return exited, nil
}

// call opens a connection with a request and reads the reply.
func (h *Holder) call(ctx context.Context, conn net.Conn, req request) (reply, error) {
	req.Version = protocolVersion
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := sendLine(conn, req); err != nil {
		return reply{}, err
	}
	var answer reply
	if err := receiveLine(conn, &answer); err != nil {
		return reply{}, fmt.Errorf("log holder: no reply: %w", err)
	}
	if answer.Error != "" {
		return reply{}, fmt.Errorf("log holder: %s", answer.Error)
	}
	return answer, nil
}

// attach makes the holder write for a container and returns where it stands.
func (h *Holder) attach(ctx context.Context, req request) (*session, position, error) {
	conn, err := h.reach(ctx)
	if err != nil {
		return nil, position{}, err
	}
	req.Op = opAttach
	answer, err := h.call(ctx, conn, req)
	var pos position
	if err == nil {
		pos, err = decodePosition(answer.Position)
	}
	if err != nil {
		return nil, position{}, errors.Join(err, conn.Close())
	}
	return &session{conn: conn}, pos, nil
}

// drop makes the holder close a container's pipes. No holder, nothing to drop.
func (h *Holder) drop(container string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	conn, err := h.dial(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }() // the reply was read
	_, err = h.call(ctx, conn, request{Op: opDrop, Container: container})
	return err
}

// Held lists the ids of the containers whose pipes are held; none without a
// holder.
func (h *Holder) Held(ctx context.Context) ([]string, error) {
	conn, err := h.dial(ctx)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = conn.Close() }() // the reply was read
	answer, err := h.call(ctx, conn, request{Op: opList})
	return answer.Held, err
}

// session is the connection of one container.
type session struct{ conn net.Conn }

// write hands a chunk over. It does not wait for the pipe, but for room in the
// connection.
func (s *session) write(ctx context.Context, c chunk) error {
	after := c.after.encode()
	lead := append(putHead(msgWrite, byte(c.stream), len(after), len(c.data)), after...)
	if _, err := writeAll(ctx, s.conn, lead); err != nil {
		return fmt.Errorf("log holder: %w", err)
	}
	if _, err := writeAll(ctx, s.conn, c.data); err != nil {
		return fmt.Errorf("log holder: %w", err)
	}
	return nil
}

// flush waits until the holder has written all and logmon has read it.
func (s *session) flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return untilRead(ctx, s.unread)
}

func (s *session) unread() (int, error) {
	if _, err := s.conn.Write(putHead(msgUnread, 0, 0, 0)); err != nil {
		return 0, fmt.Errorf("log holder: %w", err)
	}
	var count [8]byte
	if _, err := io.ReadFull(s.conn, count[:]); err != nil {
		return 0, fmt.Errorf("log holder: %w", err)
	}
	return int(binary.LittleEndian.Uint64(count[:])), nil
}

func (s *session) close() { _ = s.conn.Close() } // the holder keeps what it got
