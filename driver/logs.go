// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

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
	logger   hclog.Logger
	events   *eventer
}

var _ logCollector = (*shippers)(nil)

// newHolder speaks to the node's log holder: this program in another role.
func newHolder(dir string, logger hclog.Logger) (*logship.Holder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("log holder: %w", err)
	}
	return logship.NewHolder(logship.HolderConfig{Dir: dir, Command: []string{self, HolderCommand}, Logger: logger}), nil
}

// Ship starts the log collection of a task. It touches neither the engine nor
// Nomad's pipes on this goroutine (task-driver LG-3).
func (s *shippers) Ship(cfg *drivers.TaskConfig, state *taskState) (logShipping, error) {
	if s.config.DisableLogCollection || cfg.StdoutPath == os.DevNull && cfg.StderrPath == os.DevNull {
		return nil, nil
	}
	return shipment{logship.Start(logship.Config{
		Engine:    s.engine,
		Container: state.ContainerID,
		TTY:       state.TTY,
		Sink:      s.sink(cfg, state),
		Logger:    s.logger,
		Emit:      func(message string) { s.events.Emit(cfg, message, nil) },
	}), s.logger}, nil
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
