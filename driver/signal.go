// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SignalTask sends a signal to the task's main process.
func (d *Driver) SignalTask(taskID, signal string) error {
	t, err := d.tasks.Get(taskID)
	if err != nil {
		return err
	}
	p, err := d.ready()
	if err != nil {
		return err
	}
	name, err := parseSignal(signal)
	if err != nil {
		return err
	}
	if t.exited() {
		return fmt.Errorf("failed to send %s to task %q: it has ended", name, t.cfg.Name)
	}
	t.noteSignal(name)
	if err := p.engine.Kill(t.ctx, t.state.ContainerID, name); err != nil {
		return fmt.Errorf("failed to send %s to container %q: %w", name, t.state.ContainerID, err)
	}
	return nil
}

// parseSignal reads "SIGUSR1", "usr1" or "10" and returns the name that the
// engine understands on every kernel, real-time signals by number.
func parseSignal(text string) (string, error) {
	word := strings.ToUpper(strings.TrimSpace(text))
	if n, err := strconv.Atoi(word); err == nil {
		if n < 1 || n > 64 {
			return "", fmt.Errorf("failed to parse signal %q: numbers go from 1 to 64", text)
		}
		return strconv.Itoa(n), nil
	}
	if !strings.HasPrefix(word, "SIG") {
		word = "SIG" + word
	}
	if unix.SignalNum(word) == 0 {
		return "", fmt.Errorf("failed to parse signal %q: not a signal of this system; use for example \"SIGTERM\" or \"SIGUSR1\"", text)
	}
	return word, nil
}
