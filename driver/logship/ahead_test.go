// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// TestExpectedLog: a task that has printed more than the engine keeps, and ended,
// before a Shipper is there loses nothing.
func TestExpectedLog(t *testing.T) {
	watcher, err := NewWatcher(hclog.NewNullLogger())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, watcher.Close()) })
	dir := filepath.Join(t.TempDir(), "c")
	must.NoError(t, os.Mkdir(dir, 0o700))
	w := &engineWriter{t: t, path: filepath.Join(dir, "c-json.log"), maxSize: 1000, maxFiles: 4}
	ahead, err := Expect(watcher, w.path)
	must.NoError(t, err)

	w.open()
	t.Cleanup(func() { must.NoError(t, w.file.Close()) })
	for range 500 {
		w.line()
		if w.size < 100 { // just begun: give the watcher a chance, as a real engine's speed does
			eventually(t, "new file seen", func() bool { return openInProcess(t, w.path) })
		}
	}

	w.engine = &fakeLog{logPath: w.path, config: container.LogConfig{Type: "json-file"}}
	sink := &memory{}
	var events told
	s := Start(Config{Engine: func() Engine { return w.engine }, Container: "c", Watcher: watcher, Ahead: ahead, Sink: sink, Emit: events.emit})
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, w.want(1), sink.text(stdout))
	must.SliceEmpty(t, events.list)
}

// TestExpectedLogNeverCame: a container that does not start, or logs elsewhere.
func TestExpectedLogNeverCame(t *testing.T) {
	watcher, err := NewWatcher(hclog.NewNullLogger())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, watcher.Close()) })
	_, err = Expect(watcher, filepath.Join(t.TempDir(), "none", "c-json.log"))
	must.ErrorIs(t, err, os.ErrNotExist)

	ahead, err := Expect(watcher, filepath.Join(t.TempDir(), "c-json.log"))
	must.NoError(t, err)
	f := &fakeLog{entries: []entry{{time: 1, data: []byte("by the engine\n")}}, config: container.LogConfig{Type: "local"}}
	sink := &memory{}
	s := Start(Config{Engine: func() Engine { return f }, Container: "c", Watcher: watcher, Ahead: ahead, Sink: sink})
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, "by the engine\n", sink.text(stdout))
	must.Eq(t, 0, watcher.grown.Watching())
	must.Eq(t, 0, watcher.moved.Watching())
}

// TestFirstLookAtAFullLog: a log that has all the files that the engine keeps when
// it is first looked at may have had more.
func TestFirstLookAtAFullLog(t *testing.T) {
	watcher, err := NewWatcher(hclog.NewNullLogger())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, watcher.Close()) })
	for _, tc := range []struct {
		name     string
		maxFile  string
		wantTold int
	}{
		{"full", "2", 1},
		{"not full", "3", 0},
		{"never rotated", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newEngineWriter(t, 1000, 2)
			for w.n < 15 {
				w.line()
			}
			engine := &fakeLog{logPath: w.path, config: container.LogConfig{Type: "json-file", Config: map[string]string{"max-file": tc.maxFile}}}
			sink := &memory{}
			var events told
			s := Start(Config{Engine: func() Engine { return engine }, Container: "c", Watcher: watcher, Sink: sink, Emit: events.emit})
			must.NoError(t, s.Drain(t.Context()))
			s.Close()
			must.Eq(t, w.want(1), sink.text(stdout))
			must.Len(t, tc.wantTold, events.list)
		})
	}
}
