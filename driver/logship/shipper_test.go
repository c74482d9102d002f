// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/shoenig/test/must"
)

// someLog is a log with both streams, equal times, times out of order and parts
// of long lines.
func someLog(n int, tty bool) []entry {
	r := rand.New(rand.NewPCG(1, 2))
	var log []entry
	for i := range n {
		at := int64(1e18) + int64(i/3)*1000 + r.Int64N(3000)
		e := entry{stream: r.IntN(streams), time: at, data: fmt.Appendf(nil, "line %d\n", i)}
		if tty {
			e.stream, e.time = stdout, int64(1e18)+int64(i)*1000
		}
		if i%50 == 7 { // a long line: two parts of one time, perhaps with the other stream between
			part := entry{stream: e.stream, time: e.time, data: []byte(strings.Repeat("x", partLength))}
			log = append(log, part)
			if !tty {
				log = append(log, entry{stream: 1 - e.stream, time: e.time, data: fmt.Appendf(nil, "between %d\n", i)})
			}
		}
		log = append(log, e)
	}
	return log
}

// output is what a stream of the log should give.
func output(log []entry, stream int) string {
	var b strings.Builder
	for _, e := range log {
		if e.stream == stream {
			b.Write(e.data)
		}
	}
	return b.String()
}

// task-driver LG-5, LG-6: streams break anywhere, sinks fail anywhere, processes
// follow each other; every byte comes once.
func TestExactlyOnce(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty=%v", tty), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 4))
				log := someLog(1000, tty)
				engine := &fakeLog{entries: log, tty: tty, running: true}
				for range 40 {
					engine.cuts = append(engine.cuts, r.IntN(60000))
				}
				luck := rand.New(rand.NewPCG(5, 6)) // the sink's own
				sink := &memory{fail: func(c chunk) int {
					if luck.IntN(4) == 0 {
						return luck.IntN(len(c.data) + 1)
					}
					return -1
				}}
				start := func() *Shipper {
					return Start(Config{Engine: func() Engine { return engine }, Container: "c", TTY: tty, Sink: sink})
				}
				for range 20 { // processes
					s := start()
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond) // simulated
					s.Stop()
				}
				s := start()
				engine.mu.Lock()
				engine.running = false
				engine.mu.Unlock()
				must.NoError(t, s.Drain(t.Context()))
				s.Close()
				for stream := range streams {
					must.Eq(t, output(log, stream), sink.text(stream))
				}
			})
		})
	}
}

// A following stream that ends before the log does: the tail is fetched.
func TestTail(t *testing.T) {
	for _, missing := range []int{1, tailEntries - 1, tailEntries + 50} {
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			log := someLog(600, true)
			engine := &cutShort{fakeLog: &fakeLog{entries: log, tty: true}, missing: missing}
			sink := &memory{}
			s := Start(Config{Engine: func() Engine { return engine }, Container: "c", TTY: true, Sink: sink})
			must.NoError(t, s.Drain(t.Context()))
			s.Close()
			must.Eq(t, output(log, stdout), sink.text(stdout))
		})
	}
}

// cutShort ends following streams before the last entries.
type cutShort struct {
	*fakeLog
	missing int
}

func (c *cutShort) ContainerLogs(ctx context.Context, id string, opts container.LogsOptions) (io.ReadCloser, error) {
	if !opts.Follow {
		return c.fakeLog.ContainerLogs(ctx, id, opts)
	}
	short := &fakeLog{entries: c.entries[:len(c.entries)-c.missing], tty: c.tty}
	return short.ContainerLogs(ctx, id, opts)
}

// told collects events.
type told struct {
	mu   sync.Mutex
	list []string
}

func (e *told) emit(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, message)
}

// task-driver LG-7: what was rotated away is told once.
func TestLossIsTold(t *testing.T) {
	log := someLog(100, true)
	sink := &memory{}
	sink.pos.advance(entry{time: log[10].time})
	engine := &fakeLog{entries: log[50:], tty: true}
	var events told
	s := Start(Config{Engine: func() Engine { return engine }, Container: "c", TTY: true, Sink: sink, Emit: events.emit})
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, output(log[50:], stdout), sink.text(stdout))
	must.Len(t, 1, events.list)
	must.StrContains(t, events.list[0], "rotated them away")
}

// task-driver LG-4: ends of shipping other than the end of the log.
func TestShippingEnds(t *testing.T) {
	t.Run("not readable", func(t *testing.T) {
		var events told
		engine := &fakeLog{running: true, logErr: fmt.Errorf("x: %w", cerrdefs.ErrNotImplemented)}
		s := Start(Config{Engine: func() Engine { return engine }, Container: "c", Sink: &memory{}, Emit: events.emit})
		<-s.Done()
		s.Close()
		must.Len(t, 1, events.list)
	})
	t.Run("container gone", func(t *testing.T) {
		s := Start(Config{Engine: func() Engine { return &fakeLog{gone: true} }, Container: "c", Sink: &memory{}})
		<-s.Done()
		s.Stop()
		s.Close()
	})
}

// task-driver LG-4: engine errors are retried ever more slowly, and at once when
// the container has exited.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &fakeLog{running: true, logErr: errors.New("engine is away")}
		s := Start(Config{Engine: func() Engine { return engine }, Container: "c", Sink: &memory{}})
		time.Sleep(10 * time.Minute) // simulated
		n := engine.streamsOpened()
		must.Between(t, 8, n, 60)
		engine.mu.Lock()
		engine.logErr, engine.running = nil, false
		engine.mu.Unlock()
		begun := time.Now()
		must.NoError(t, s.Drain(t.Context()))
		must.Less(t, time.Second, time.Since(begun))
		s.Close()
	})
}

// Drain gives up with its context while the engine does not answer.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &fakeLog{running: true, logErr: errors.New("engine is away")}
		s := Start(Config{Engine: func() Engine { return engine }, Container: "c", Sink: &memory{}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		must.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
		s.Close()
	})
}
