// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"github.com/shoenig/test/must"
)

// terminal is one user at a streaming exec: what is typed, what is seen.
type terminal struct {
	ctx   context.Context
	input chan *drivers.ExecTaskStreamingRequestMsg

	mu             sync.Mutex // guards everything below
	stdout, stderr strings.Builder
	result         *proto.ExitResult
}

var _ drivers.ExecTaskStream = (*terminal)(nil)

// type_ types a text; with end, stdin ends after it.
func (u *terminal) type_(text string, end bool) {
	u.input <- &drivers.ExecTaskStreamingRequestMsg{Stdin: &proto.ExecTaskStreamingIOOperation{Data: []byte(text)}}
	if end {
		u.input <- &drivers.ExecTaskStreamingRequestMsg{Stdin: &proto.ExecTaskStreamingIOOperation{Close: true}}
	}
}

func (u *terminal) resize(height, width int32) {
	u.input <- &drivers.ExecTaskStreamingRequestMsg{TtySize: &proto.ExecTaskStreamingRequest_TerminalSize{Height: height, Width: width}}
}

func (u *terminal) Recv() (*drivers.ExecTaskStreamingRequestMsg, error) {
	select {
	case m := <-u.input:
		return m, nil
	case <-u.ctx.Done():
		return nil, io.EOF
	}
}

func (u *terminal) Send(m *drivers.ExecTaskStreamingResponseMsg) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m.Stdout != nil {
		u.stdout.Write(m.Stdout.Data)
	}
	if m.Stderr != nil {
		u.stderr.Write(m.Stderr.Data)
	}
	if m.Exited {
		u.result = m.Result
	}
	return nil
}

// exec runs a shell command through the plugin boundary and returns its outcome.
func (s *site) exec(taskID, command string, tty bool, act func(*terminal)) (code int, stdout, stderr string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testLimit)
	defer cancel()
	u := &terminal{ctx: ctx, input: make(chan *drivers.ExecTaskStreamingRequestMsg, 8)}
	if act != nil {
		act(u)
	}
	must.NoError(s.t, s.streaming.ExecTaskStreamingRaw(ctx, taskID, []string{"/bin/sh", "-c", command}, tty, u))
	u.mu.Lock()
	defer u.mu.Unlock()
	must.NotNil(s.t, u.result)
	return int(u.result.ExitCode), u.stdout.String(), u.stderr.String()
}

// execCases are the behaviours that Nomad's own drivers agree on (task-driver ES-5).
var execCases = []struct {
	name, command string
	tty           bool
	act           func(*terminal)
	code          int
	stdout        string
	stderr        string // a pattern
}{
	{
		name: "both streams and the code", command: "echo to stdout; echo to stderr >&2; exit 43",
		code: 43, stdout: "to stdout\n", stderr: "^to stderr\n$",
	},
	{name: "output comes while it runs", command: "for i in 1 2 3; do echo $i; sleep 0.3; done", stdout: "1\n2\n3\n", stderr: "^$"},
	{name: "no terminal without tty", command: "stty size", code: 1, stderr: "Inappropriate ioctl"},
	{
		name: "stdin", command: "echo ready; head -n1", stdout: "ready\ntyped\n", stderr: "^$",
		act: func(u *terminal) { u.type_("typed\n", true) },
	},
	{name: "end of stdin", command: "cat; echo over", stdout: "abc" + "over\n", stderr: "^$", act: func(u *terminal) { u.type_("abc", true) }},
	{name: "tty: one stream and the code", command: "echo to stdout; echo to stderr >&2; exit 43", tty: true, code: 43, stdout: "to stdout\r\nto stderr\r\n", stderr: "^$"},
	{name: "tty: output comes while it runs", command: "for i in 1 2 3; do echo $i; sleep 0.3; done", tty: true, stdout: "1\r\n2\r\n3\r\n", stderr: "^$"},
	{
		name: "tty: the latest size", command: "sleep 1; stty size", tty: true, stdout: "100 100\r\n", stderr: "^$",
		act: func(u *terminal) { u.resize(50, 40); u.resize(100, 100) },
	},
	{
		name: "tty: stdin is echoed", command: "head -n1", tty: true, stdout: "typed\r\ntyped\r\n", stderr: "^$",
		act: func(u *terminal) { u.type_("typed\n", false) },
	},
	{name: "tty: background processes are not waited for", command: "( (sleep 5; echo late) & ); echo lead; exec sleep 1", tty: true, stdout: "lead\r\n", stderr: "^$"},
}

func TestEngineExecStreaming(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("sleep 120", nil)
	s.start(cfg)
	for _, tc := range execCases {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := s.exec(cfg.ID, tc.command, tc.tty, tc.act)
			must.Eq(t, tc.code, code)
			must.Eq(t, tc.stdout, stdout)
			must.RegexMatch(t, regexp.MustCompile(tc.stderr), stderr)
		})
	}
	t.Run("it runs inside the container", func(t *testing.T) {
		code, file, _ := s.exec(cfg.ID, `f=$(mktemp); echo $f; echo inside > $f`, false, nil)
		must.Eq(t, 0, code)
		_, err := os.Stat(strings.TrimSpace(file))
		must.ErrorIs(t, err, os.ErrNotExist)
		_, text, _ := s.exec(cfg.ID, "cat "+file, false, nil)
		must.Eq(t, "inside\n", text)
	})
	t.Run("no command", func(t *testing.T) {
		u := &terminal{ctx: t.Context(), input: make(chan *drivers.ExecTaskStreamingRequestMsg)}
		err := s.streaming.ExecTaskStreamingRaw(t.Context(), cfg.ID, nil, false, u)
		must.ErrorContains(t, err, "command is required but was empty")
	})
}

func TestEngineExec(t *testing.T) {
	s := newSite(t, nil)
	cfg := s.task("sleep 120", nil)
	s.start(cfg)
	t.Run("streams and code", func(t *testing.T) {
		r, err := s.ExecTask(cfg.ID, []string{"/bin/sh", "-c", "echo out; echo err >&2; exit 4"}, testLimit)
		must.NoError(t, err)
		must.Eq(t, "out\n", string(r.Stdout))
		must.Eq(t, "err\n", string(r.Stderr))
		must.Eq(t, 4, r.ExitResult.ExitCode)
	})
	t.Run("the last 4 KiB", func(t *testing.T) {
		r, err := s.ExecTask(cfg.ID, []string{"/bin/sh", "-c", "yes | head -c 10000; echo end"}, 0)
		must.NoError(t, err)
		must.Eq(t, 4096, len(r.Stdout))
		must.StrHasSuffix(t, "end\n", string(r.Stdout))
	})
	t.Run("no such command", func(t *testing.T) {
		r, err := s.ExecTask(cfg.ID, []string{"/nowhere"}, testLimit)
		must.NoError(t, err)
		must.SliceContains(t, []int{126, 127}, r.ExitResult.ExitCode) // engines differ
	})
	t.Run("no command", func(t *testing.T) {
		_, err := s.ExecTask(cfg.ID, nil, time.Second)
		must.ErrorContains(t, err, "cmd is required, but was empty")
	})
	for name, command := range map[string][]string{
		"a command that takes too long is killed":    {"/bin/sleep", "77"},
		"and so is what a script waits for":          {"/bin/sh", "-c", "sleep 77; true"},
		"and what it left in the background earlier": {"/bin/sh", "-c", "(sleep 77 &); sleep 77; true"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.ExecTask(cfg.ID, command, 500*time.Millisecond)
			must.ErrorContains(t, err, "deadline exceeded")
			eventually(t, testLimit, func() error {
				r, err := s.ExecTask(cfg.ID, []string{"/bin/sh", "-c", "ps | grep '[s]leep 77'"}, testLimit)
				if err == nil && r.ExitResult.ExitCode == 0 {
					return fmt.Errorf("still there: %s", r.Stdout)
				}
				return err
			})
		})
	}
}
