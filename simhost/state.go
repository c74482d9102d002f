// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// state is what the libraries read: flat keys and one-line values. An absent key
// is a thing that the host does not tell.
type state map[string]string

// text is the file: sorted lines, so that a diff of two states is readable.
func (s state) text() []byte {
	keys := make([]string, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s=%s\n", k, s[k])
	}
	return []byte(b.String())
}

func parseState(text []byte) state {
	s := state{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			s[key] = value
		}
	}
	return s
}

// put sets a key, or removes it for nil.
func (s state) put(key string, value *string) {
	if value == nil {
		delete(s, key)
		return
	}
	s[key] = *value
}

// dropPrefix removes all keys that begin so.
func (s state) dropPrefix(prefix string) {
	for k := range s {
		if strings.HasPrefix(k, prefix) {
			delete(s, k)
		}
	}
}

// markFaults keeps the mark that there are faults at all, which spares the
// libraries the search for them.
func (s state) markFaults() {
	delete(s, "faults")
	for k := range s {
		if strings.HasPrefix(k, "fail.") || strings.HasPrefix(k, "slow.") {
			s["faults"] = "1"
			return
		}
	}
}

// stateDir is where a root keeps what the libraries read.
func stateDir(root string) string { return filepath.Join(root, "var/lib/simhost") }

func readState(root string) (state, error) {
	text, err := os.ReadFile(filepath.Join(stateDir(root), "state"))
	if err != nil {
		return nil, err
	}
	return parseState(text), nil
}

// writeState replaces the file in one step, so that no reader sees half of it,
// and lets the readers know.
func writeState(root string, s state) error {
	s.markFaults()
	if err := replaceFile(filepath.Join(stateDir(root), "state"), s.text(), 0o644); err != nil {
		return err
	}
	return announceChange(root)
}

func replaceFile(path string, content []byte, mode os.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone after the rename
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Chmod(mode)
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// changeState reads, changes and writes the state under the root's lock, so that
// changes of several processes do not lose each other.
func changeState(root string, change func(state) error) error {
	unlock, err := lockRoot(root)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := readState(root)
	if err != nil {
		return fmt.Errorf("state of the simulated host %q: %w", root, err)
	}
	if err := change(s); err != nil {
		return err
	}
	return writeState(root, s)
}

// lockRoot takes the lock of a root; waiting ends when the holder's process ends.
func lockRoot(root string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(stateDir(root), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock of the simulated host %q: %w", root, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock of the simulated host %q: %w", root, err)
	}
	return func() { _ = f.Close() }, nil
}
