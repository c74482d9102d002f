// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/guard"
)

const (
	// execTail is how much of each stream ExecTask keeps: the last 4 KiB
	// (task-driver EX-1).
	execTail = 4 << 10
	// An ended process' exit code appears a moment later in the engine.
	execPoll      = 50 * time.Millisecond
	execPollLimit = 3 * time.Second
)

// ExecTask runs a command in the task's container and returns the tail of its
// output. A timeout of 0 means none. A command that cannot be started ends with
// code 126 or 127, as in a shell.
func (d *Driver) ExecTask(taskID string, cmd []string, timeout time.Duration) (*drivers.ExecTaskResult, error) {
	if len(cmd) == 0 {
		return nil, errors.New("cmd is required, but was empty")
	}
	t, p, err := d.running(taskID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(t.ctx, timeout)
		defer cancel()
	}
	stdout, stderr := &tail{limit: execTail}, &tail{limit: execTail}
	code, err := p.exec(ctx, t, execRequest{command: cmd, stdout: stdout, stderr: stderr})
	if err != nil {
		return nil, err
	}
	return &drivers.ExecTaskResult{
		Stdout: stdout.Bytes(), Stderr: stderr.Bytes(),
		ExitResult: &drivers.ExitResult{ExitCode: code},
	}, nil
}

// running returns a task that has not ended.
func (d *Driver) running(taskID string) (*task, *parts, error) {
	t, err := d.tasks.Get(taskID)
	if err != nil {
		return nil, nil, err
	}
	p, err := d.ready()
	if err != nil {
		return nil, nil, err
	}
	if t.exited() {
		return nil, nil, fmt.Errorf("task %q is not running", t.cfg.Name)
	}
	return t, p, nil
}

// execRequest is one process in a container. stdin and resize may be nil.
type execRequest struct {
	command        []string
	tty            bool
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan drivers.TerminalSize
}

// exec runs a process to its end and returns its exit code. When ctx ends first,
// the process is killed: the engine has no call for that.
func (p *parts) exec(ctx context.Context, t *task, req execRequest) (int, error) {
	id, err := p.engine.ExecCreate(ctx, t.state.ContainerID, container.ExecOptions{
		Cmd: req.command, Tty: req.tty,
		AttachStdin: req.stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, fmt.Errorf("failed to create exec in container %q: %w", t.state.ContainerID, err)
	}
	size := waitingSize(req)
	streams, err := p.engine.ExecAttach(ctx, id, container.ExecAttachOptions{Tty: req.tty, ConsoleSize: size})
	if err != nil {
		return 0, fmt.Errorf("failed to start exec in container %q: %w", t.state.ContainerID, err)
	}
	defer streams.Close()

	inner, stop := context.WithCancel(ctx)
	defer stop()
	go p.followSize(inner, id, size, req.resize)
	go copyInput(p.logger, streams.Conn, req.stdin, streams.CloseWrite)
	copied := make(chan error, 1)
	go func() { copied <- copyOutput(p.logger, req, streams.Reader) }()

	if err := p.awaitExec(ctx, id, req.tty, copied); err != nil {
		p.killExec(t, id)
		return 0, err
	}
	return p.execCode(t.ctx, id)
}

// copyOutput takes apart what the process writes; a terminal has one stream.
func copyOutput(log hclog.Logger, req execRequest, from io.Reader) (err error) {
	defer guard.Catch(log, "exec output", &err)
	if req.tty {
		_, err = io.Copy(req.stdout, from)
		return err
	}
	_, err = stdcopy.StdCopy(req.stdout, req.stderr, from)
	return err
}

// copyInput passes stdin on and half-closes the connection at its end, so that
// the process sees the end too. It returns when either side ends.
func copyInput(log hclog.Logger, to io.Writer, stdin io.Reader, closeWrite func() error) {
	defer guard.Log(log, "exec input")
	if stdin == nil {
		return
	}
	if _, err := io.Copy(to, stdin); err == nil {
		_ = closeWrite() // the process may have ended already
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - t.limit; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

// Bytes returns what is kept.
func (t *tail) Bytes() []byte { return t.buf }
