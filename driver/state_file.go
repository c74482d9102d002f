// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const (
	// defaultStateDir keeps what must outlive this process and is not in a
	// task's handle.
	defaultStateDir = "/var/lib/gpu-docker"
	// defaultRunDir holds the log holder's socket.
	defaultRunDir = "/run/gpu-docker"
	// stateDirEnv names another directory for both.
	stateDirEnv = "GPU_DOCKER_STATE_DIR"
)

// stateFile remembers containers across restarts of the plugin: those that are to
// be removed, those of ended tasks, and pause containers with the allocation that they serve. Of
// several processes on one host one owns the file; the others remember in
// memory only. Safe for concurrent use.
type stateFile struct {
	dir    string
	logger hclog.Logger

	mu   sync.Mutex // guards everything below
	lock *os.File   // nil: memory only
	told bool       // that it is
	data stateData
	// written is the file's text as this process wrote it; nil before.
	written []byte
}

// stateData is the file's content.
type stateData struct {
	// Doomed are ids of containers that are still to be removed.
	Doomed []string `json:"doomed,omitempty"`
	// Ended are ids of containers of tasks that were told to stop, or ended, and
	// have not been destroyed yet.
	Ended []string `json:"ended,omitempty"`
	// Pauses maps ids of pause containers to the allocation directory.
	Pauses map[string]string `json:"pauses,omitempty"`
}

func newStateFile(dir string, logger hclog.Logger) *stateFile {
	return &stateFile{dir: dir, logger: logger, data: stateData{Pauses: map[string]string{}}}
}

func (s *stateFile) file() string { return filepath.Join(s.dir, "driver.json") }

// Open takes the file if no other process has it, and reads it. It says whether
// this process owns the directory now; a predecessor may take a moment to end, so
// try again.
func (s *stateFile) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return true
	}
	if err := s.open(); err != nil {
		if !s.told {
			s.logger.Warn("state is kept in memory only for now", "directory", s.dir, "error", err)
		}
		s.told = true
		return false
	}
	return true
}

func (s *stateFile) open() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w; make %q writable or set %s", err, s.dir, stateDirEnv)
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("state lock: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another process keeps state in %q: %w", s.dir, err), lock.Close())
	}
	s.lock = lock
	text, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var read stateData
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		s.logger.Error("state file cannot be read and starts empty", "file", s.file(), "error", err)
		return nil
	}
	s.data.Doomed = append(s.data.Doomed, read.Doomed...)
	s.data.Ended = append(s.data.Ended, read.Ended...)
	if read.Pauses != nil {
		maps.Copy(read.Pauses, s.data.Pauses)
		s.data.Pauses = read.Pauses
	}
	return nil
}

// Close gives the directory to another process.
func (s *stateFile) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return
	}
	if err := s.lock.Close(); err != nil {
		s.logger.Warn("state lock stays until the end of the process", "error", err)
	}
	s.lock, s.written = nil, nil
}

// change edits the data, and writes it if that made a difference. s.mu is not held.
func (s *stateFile) change(edit func(*stateData)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(&s.data)
	if s.lock == nil {
		return
	}
	if err := s.write(); err != nil {
		s.logger.Error("state file cannot be written", "file", s.file(), "error", err)
	}
}

// write replaces the file in one step.
func (s *stateFile) write() error {
	text, err := json.Marshal(s.data)
	if err != nil || bytes.Equal(text, s.written) {
		return err
	}
	beside := s.file() + ".new"
	if err := os.WriteFile(beside, text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(beside, s.file()); err != nil {
		return err
	}
	s.written = text
	return nil
}

// Doom remembers a container that could not be removed.
func (s *stateFile) Doom(id string) {
	s.change(func(d *stateData) {
		if !slices.Contains(d.Doomed, id) {
			d.Doomed = append(d.Doomed, id)
		}
	})
}

// End remembers the container of a task that has ended or is about to: a process
// that dies before DestroyTask leaves it to the next one.
func (s *stateFile) End(id string) {
	s.change(func(d *stateData) {
		if !slices.Contains(d.Ended, id) {
			d.Ended = append(d.Ended, id)
		}
	})
}

// Buried forgets a container that is removed now.
func (s *stateFile) Buried(id string) {
	same := func(other string) bool { return other == id }
	s.change(func(d *stateData) {
		d.Doomed = slices.DeleteFunc(d.Doomed, same)
		d.Ended = slices.DeleteFunc(d.Ended, same)
	})
}

// Ended are the containers of tasks that have ended, or were to.
func (s *stateFile) Ended() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.data.Ended)
}

// Doomed are the containers still to be removed.
func (s *stateFile) Doomed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.data.Doomed)
}

// KeepPause remembers which allocation directory belongs to a pause container.
func (s *stateFile) KeepPause(id, allocDir string) {
	s.change(func(d *stateData) { d.Pauses[id] = allocDir })
}

// DropPause forgets a pause container.
func (s *stateFile) DropPause(id string) {
	s.change(func(d *stateData) { delete(d.Pauses, id) })
}

// Pauses maps known pause containers to their allocation directories.
func (s *stateFile) Pauses() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data.Pauses)
}
