// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/logship"
)

// HolderCommand is the sub-command with which this binary becomes the log
// holder of the node; main hands the arguments after it to logship.HolderMain.
const HolderCommand = "log-holder"

// shippers collects logs with driver/logship.
type shippers struct {
	config   *config.Plugin
	engine   func() logship.Engine
	stateDir string // of log positions
	holder   *logship.Holder
	files    *logFiles
	logger   hclog.Logger
	events   *eventer
}

var _ logCollector = (*shippers)(nil)

// newHolder speaks to the node's log holder: this program in another role.
// Its path holds also after an upgrade has replaced the file.
func newHolder(dir string, logger hclog.Logger) *logship.Holder {
	return logship.NewHolder(logship.HolderConfig{Dir: dir, Command: []string{"/proc/self/exe", HolderCommand}, Logger: logger})
}

// logFiles watches the engine's log files, one watcher a process, begun with the
// first task: SetConfig may run in a process that never has one.
type logFiles struct {
	logger hclog.Logger

	once    sync.Once
	watcher *logship.Watcher // nil when files cannot be watched: then the API serves
}

func (f *logFiles) get() *logship.Watcher {
	f.once.Do(func() {
		w, err := logship.NewWatcher(f.logger)
		if err != nil {
			f.logger.Warn("the engine's log files cannot be watched; logs are read through its API, which is slower", "error", err)
			return
		}
		if err := w.Preferred(); err != nil {
			f.logger.Info("log files are opened without priority; on a busy machine, tasks that print many megabytes a second may lose lines", "error", err)
		}
		f.watcher = w
	})
	return f.watcher
}

// close ends the watching; no shipper may run any more.
func (f *logFiles) close() {
	f.once.Do(func() {})
	if f.watcher == nil {
		return
	}
	if err := f.watcher.Close(); err != nil {
		f.logger.Debug("closing the watch on log files", "error", err)
	}
}

// off says whether operator or job want no logs of a task (task-driver LG-1).
func (s *shippers) off(cfg *drivers.TaskConfig) bool {
	return s.config.DisableLogCollection || cfg.StdoutPath == os.DevNull && cfg.StderrPath == os.DevNull
}

// Expect opens the engine's log files as they come.
func (s *shippers) Expect(cfg *drivers.TaskConfig, path string) *logship.Ahead {
	if s.off(cfg) {
		return nil
	}
	watcher := s.files.get()
	if watcher == nil {
		return nil
	}
	ahead, err := logship.Expect(watcher, path)
	if err != nil {
		s.logger.Debug("the log is opened only after the start", "task_id", cfg.ID, "error", err)
	}
	return ahead
}

// Ship starts the log collection of a task. It touches neither the engine nor
// Nomad's pipes on this goroutine (task-driver LG-3).
func (s *shippers) Ship(cfg *drivers.TaskConfig, state *taskState, ahead *logship.Ahead) (logShipping, error) {
	if s.off(cfg) {
		return nil, nil
	}
	return shipment{logship.Start(logship.Config{
		Engine:    s.engine,
		Container: state.ContainerID,
		TTY:       state.TTY,
		Watcher:   s.files.get(),
		Ahead:     ahead,
		Sink:      s.sink(cfg, state),
		Logger:    s.logger,
		Emit:      func(message string) { s.events.Emit(cfg, message, nil) },
	}), s.logger}, nil
}

// releaseLogs lets Nomad's log collector of a task that did not start end at
// once, and with it the task: a refusal shows 4 s earlier.
func releaseLogs(cfg *drivers.TaskConfig) {
	logship.ReleaseReader(cfg.StdoutPath)
	logship.ReleaseReader(cfg.StderrPath)
}

// sink is Nomad's pair of pipes or the log files themselves.
func (s *shippers) sink(cfg *drivers.TaskConfig, state *taskState) logship.Sink {
	if s.config.Logs.Collector != config.CollectorDriver {
		return logship.FIFOs(logship.FIFOConfig{
			Stdout: cfg.StdoutPath, Stderr: cfg.StderrPath,
			Container: state.ContainerID, StateDir: s.stateDir, Holder: s.holder, Logger: s.logger,
		})
	}
	files := logship.FilesConfig{
		Dir: filepath.Dir(cfg.StdoutPath), Task: cfg.Name, Container: state.ContainerID,
		StateDir: s.stateDir,
		MaxFiles: s.config.Logs.MaxFiles, MaxFileSizeMiB: s.config.Logs.MaxFileSizeMiB, Logger: s.logger,
	}
	if state.LogsMaxFiles > 0 {
		files.MaxFiles = state.LogsMaxFiles
	}
	if state.LogsMaxFileSizeMiB > 0 {
		files.MaxFileSizeMiB = state.LogsMaxFileSizeMiB
	}
	return logship.Files(files)
}

// shipment is one task's shipper.
type shipment struct {
	*logship.Shipper
	logger hclog.Logger
}

func (s shipment) Drain(ctx context.Context) {
	if err := s.Shipper.Drain(ctx); err != nil {
		s.logger.Warn("the task's last log lines are late", "error", err)
	}
}
