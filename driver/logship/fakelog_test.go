// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// fakeLog is an engine with the log of one container. It cuts streams where the
// test says so.
type fakeLog struct {
	mu      sync.Mutex // guards everything below
	entries []entry
	tty     bool
	running bool
	gone    bool
	logErr  error
	cuts    []int // the next streams end, with an error, after that many bytes
	opened  []container.LogsOptions
	logPath string
	config  container.LogConfig
}

// stampFormat is the engine's.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// render is the engine's form of one entry.
func (f *fakeLog) render(e entry) []byte {
	text := append([]byte(time.Unix(0, e.time).UTC().Format(stampFormat)+" "), e.data...)
	if f.tty {
		return text
	}
	head := make([]byte, 8)
	head[0] = byte(e.stream + 1)
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

func (f *fakeLog) ContainerLogs(_ context.Context, _ string, opts container.LogsOptions) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = append(f.opened, opts)
	if f.gone {
		return nil, cerrdefs.ErrNotFound
	}
	if f.logErr != nil {
		return nil, f.logErr
	}
	entries, since := f.entries, int64(0)
	if opts.Since != "" {
		seconds, nanos, _ := strings.Cut(opts.Since, ".")
		s, _ := strconv.ParseInt(seconds, 10, 64)
		n, _ := strconv.ParseInt(nanos, 10, 64)
		since = s*1e9 + n
	}
	if n, err := strconv.Atoi(opts.Tail); err == nil {
		entries = entries[max(0, len(entries)-n):]
	}
	var text bytes.Buffer
	for _, e := range entries {
		if e.time >= since {
			text.Write(f.render(e))
		}
	}
	if len(f.cuts) > 0 {
		cut := f.cuts[0]
		f.cuts = f.cuts[1:]
		return io.NopCloser(io.MultiReader(io.LimitReader(&text, int64(cut)), broken{})), nil
	}
	return io.NopCloser(&text), nil
}

// broken is a connection that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (f *fakeLog) ContainerInspect(_ context.Context, id string) (container.InspectResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return container.InspectResponse{}, cerrdefs.ErrNotFound
	}
	return container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
		ID: id, State: &container.State{Running: f.running}, LogPath: f.logPath,
		HostConfig: &container.HostConfig{LogConfig: f.config},
	}}, nil
}

func (f *fakeLog) streamsOpened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.opened)
}

// memory is a Sink in memory that keeps positions as a process would that is
// killed after each write.
type memory struct {
	mu   sync.Mutex // guards everything below
	out  [streams]bytes.Buffer
	pos  position
	fail func(c chunk) int // bytes of the chunk to take before failing; -1 for all
}

func (m *memory) attach(context.Context) (position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pos, nil
}

func (m *memory) write(_ context.Context, c chunk) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if n := m.fail(c); n >= 0 {
			m.out[c.stream].Write(c.data[:n])
			m.pos.Ahead[c.stream] += int64(n)
			return io.ErrShortWrite
		}
	}
	m.out[c.stream].Write(c.data)
	m.pos = c.after
	return nil
}

func (m *memory) flush(context.Context) error { return nil }
func (m *memory) detach()                     {}
func (m *memory) discard()                    {}

func (m *memory) text(stream int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out[stream].String()
}
