// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package inotify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// TestRun: a change of a watched file is told until nobody wants it or the file is gone.
func TestRun(t *testing.T) {
	i, err := New(unix.IN_NONBLOCK)
	must.NoError(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); i.Run() }()

	dir := t.TempDir()
	told := map[string]chan Event{}
	stop := map[string]func(){}
	for _, name := range []string{"a", "b"} {
		file := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(file, nil, 0o600))
		events := make(chan Event, 16)
		told[name] = events
		stop[name], err = i.Add(file, unix.IN_MODIFY, func(e Event) { events <- Event{Mask: e.Mask} })
		must.NoError(t, err)
	}
	must.Eq(t, 2, i.Watching())
	for range 2 {
		must.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600))
		must.Eq(t, unix.IN_MODIFY, int((<-told["a"]).Mask))
	}
	must.NoError(t, os.Remove(filepath.Join(dir, "a")))
	for e := range told["a"] {
		if e.Mask&unix.IN_IGNORED != 0 {
			break
		}
	}
	stop["a"]()
	stop["b"]()
	must.Eq(t, 0, i.Watching())
	must.Eq(t, 0, len(told["b"]))

	_, err = i.Add(filepath.Join(dir, "none"), unix.IN_MODIFY, func(Event) {})
	must.ErrorIs(t, err, os.ErrNotExist)
	must.NoError(t, i.Close())
	<-ended
	_, err = i.Add(dir, unix.IN_MODIFY, func(Event) {})
	must.ErrorContains(t, err, "closed")
}
