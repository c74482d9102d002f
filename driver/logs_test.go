// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// TestNoLogCollection: where operator or job want no logs, nothing is shipped.
func TestNoLogCollection(t *testing.T) {
	off := config.DefaultPlugin()
	off.DisableLogCollection = true
	for _, tc := range []struct {
		name   string
		config *config.Plugin
		path   string
	}{
		{"the operator's option", off, "/alloc/logs/t.stdout.fifo"},
		{"the job's logs.disabled", config.DefaultPlugin(), os.DevNull},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &shippers{config: tc.config}
			shipping, err := s.Ship(&drivers.TaskConfig{StdoutPath: tc.path, StderrPath: tc.path}, &taskState{}, nil)
			must.NoError(t, err)
			must.Nil(t, shipping)
		})
	}
}

// TestReleaseLogs: the collectors of a task that did not start see the end of its
// pipes; a file in a pipe's place is not touched.
func TestReleaseLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	must.NoError(t, os.Mkdir(dir, 0o755))
	pipe, file := filepath.Join(dir, ".t.stdout.fifo"), filepath.Join(dir, "t.stderr")
	must.NoError(t, unix.Mkfifo(pipe, 0o600))
	must.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	ended := make(chan error, 1)
	go func() {
		text, err := os.ReadFile(pipe)
		if err == nil && len(text) > 0 {
			err = fmt.Errorf("the pipe had %q", text)
		}
		ended <- err
	}()
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		releaseLogs(&drivers.TaskConfig{StdoutPath: pipe, StderrPath: file})
		select {
		case err := <-ended:
			return err
		default:
			return errors.New("the reader has not ended") // or not opened the pipe yet
		}
	}), wait.Timeout(10*time.Second), wait.Gap(time.Millisecond)))
	text, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Eq(t, "text", string(text))
}
