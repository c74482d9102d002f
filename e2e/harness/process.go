// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a program started in a session of its own, with its output in a file.
type Process struct {
	cmd     *exec.Cmd
	done    chan struct{}
	logFile string
}

// StartProcess starts a program; env is added to this process's environment.
func StartProcess(logFile string, env []string, name string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %q: %w", name, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{}), logFile: logFile}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop sends a signal and waits; after the limit it kills.
func (p *Process) Stop(sig os.Signal, limit time.Duration) {
	if p.Ended() {
		return
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// LogTail is the end of what the process printed, on one line.
func (p *Process) LogTail(lines int) string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text), lines)
}

// LogErrors is what the process printed about errors, on one line; its last
// lines when no line speaks of one.
func (p *Process) LogErrors() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, "[ERROR]") || strings.Contains(line, "Error ") {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		return p.LogTail(5)
	}
	return lastLines(strings.Join(found, "\n"), 5)
}
