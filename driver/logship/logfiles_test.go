// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/inotify"
)

// engineWriter writes and rotates a log as the engine's json-file does.
type engineWriter struct {
	t        *testing.T
	path     string
	file     *os.File
	size     int
	maxSize  int
	maxFiles int
	n        int // lines written
	engine   *fakeLog
}

func newEngineWriter(t *testing.T, maxSize, maxFiles int) *engineWriter {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "c")
	must.NoError(t, os.Mkdir(dir, 0o700))
	w := &engineWriter{t: t, path: filepath.Join(dir, "c-json.log"), maxSize: maxSize, maxFiles: maxFiles}
	w.open()
	t.Cleanup(func() { must.NoError(t, w.file.Close()) })
	return w
}

func (w *engineWriter) open() {
	w.t.Helper()
	var err error
	w.file, err = os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	must.NoError(w.t, err)
	w.size = 0
}

func (w *engineWriter) rotate() {
	w.t.Helper()
	must.NoError(w.t, w.file.Close())
	for i := w.maxFiles - 1; i > 1; i-- {
		err := os.Rename(fmt.Sprintf("%s.%d", w.path, i-1), fmt.Sprintf("%s.%d", w.path, i))
		must.True(w.t, err == nil || os.IsNotExist(err))
	}
	if w.maxFiles > 1 {
		must.NoError(w.t, os.Rename(w.path, w.path+".1"))
	}
	w.open()
}

// line writes the next numbered line.
func (w *engineWriter) line() {
	w.t.Helper()
	w.n++
	raw, err := json.Marshal(jsonLine{Log: fmt.Sprintf("line %d\n", w.n), Stream: "stdout", Time: time.Unix(int64(w.n), 0).UTC()})
	must.NoError(w.t, err)
	if w.size > 0 && w.size+len(raw)+1 > w.maxSize {
		w.rotate()
	}
	n, err := w.file.Write(append(raw, '\n'))
	must.NoError(w.t, err)
	w.size += n
}

// want is the output of all lines so far, from the given one on.
func (w *engineWriter) want(from int) string {
	var b strings.Builder
	for i := from; i <= w.n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// firstLook opens the log as it is; the test tells of changes itself.
func (w *engineWriter) firstLook() *logFiles {
	w.t.Helper()
	l := &logFiles{path: w.path, wake: make(chan struct{}, 1)}
	must.NonZero(w.t, l.begin())
	return l
}

// direct starts a shipper that reads the writer's files.
func (w *engineWriter) direct(sink Sink, emit func(string)) *Shipper {
	w.t.Helper()
	watcher, err := NewWatcher(hclog.NewNullLogger())
	must.NoError(w.t, err)
	w.t.Cleanup(func() { must.NoError(w.t, watcher.Close()) })
	w.engine = &fakeLog{running: true, logPath: w.path, config: container.LogConfig{Type: "json-file"}}
	engine := w.engine
	return Start(Config{Engine: func() Engine { return engine }, Container: "c", Watcher: watcher, Sink: sink, Emit: emit})
}

// task-driver LG-7: a reader that stands still while the engine rotates ever so
// often gets everything in the end.
func TestRotationUnderSlowReader(t *testing.T) {
	w := newEngineWriter(t, 1000, 2)
	w.line()
	release := make(chan struct{})
	sink := &memory{fail: func(chunk) int {
		<-release
		return -1
	}}
	var events told
	s := w.direct(sink, events.emit)
	eventually(t, "the shipper at work", func() bool { return sink.mu.TryLock() == false || unlock(sink) })
	for range 2000 {
		w.line()
		if w.size < 100 { // just rotated: give the watcher a chance, as a real engine's speed does
			eventually(t, "new file seen", func() bool { return openInProcess(t, w.path) })
		}
	}
	close(release)
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, w.want(1), sink.text(stdout))
	must.SliceEmpty(t, events.list, must.Sprint(events.list))
}

// unlock gives a lock back that was free, for which the answer is no.
func unlock(m *memory) bool {
	m.mu.Unlock()
	return false
}

// openInProcess says whether this process reads the file with that name now.
func openInProcess(t *testing.T, path string) bool {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	must.NoError(t, err)
	readers := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == path {
			readers++
		}
	}
	return readers > 1 // the writer is the other one
}

// Processes follow each other while the engine writes and rotates.
func TestDirectResume(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	w := newEngineWriter(t, 5000, 1000)
	luck := rand.New(rand.NewPCG(9, 10)) // the sink's own
	sink := &memory{fail: func(c chunk) int {
		if luck.IntN(3) == 0 {
			return luck.IntN(len(c.data) + 1)
		}
		return -1
	}}
	var events told
	for range 30 {
		s := w.direct(sink, events.emit)
		for range r.IntN(100) {
			w.line()
		}
		s.Stop()
		for range r.IntN(100) { // while nobody reads
			w.line()
		}
	}
	s := w.direct(sink, events.emit)
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, w.want(1), sink.text(stdout))
	must.SliceEmpty(t, events.list, must.Sprint(events.list))
}

// What was rotated away while nobody read is told.
func TestDirectLoss(t *testing.T) {
	for _, maxFiles := range []int{1, 2} {
		t.Run(fmt.Sprint(maxFiles), func(t *testing.T) {
			w := newEngineWriter(t, 1000, maxFiles)
			sink := &memory{}
			var events told
			s := w.direct(sink, events.emit)
			w.line()
			eventually(t, "first line", func() bool { return sink.text(stdout) == w.want(1) })
			s.Stop()
			for range 100 {
				w.line()
			}
			s = w.direct(sink, events.emit)
			must.NoError(t, s.Drain(t.Context()))
			s.Close()
			must.Len(t, 1, events.list)
			got := sink.text(stdout)
			must.True(t, strings.HasPrefix(got, "line 1\nline ") && strings.HasSuffix(got, "line 101\n"))
			must.Eq(t, strings.Count(got, "\n"), len(uniqueLines(got)))
		})
	}
}

// Loss is told exactly: late looks that still found all files are none.
func TestRotationsCounted(t *testing.T) {
	created := inotify.Event{Mask: unix.IN_CREATE, Name: []byte("c-json.log")}
	for rotations, wantLost := range map[int]bool{1: false, 2: false, 3: true, 4: true} {
		w := newEngineWriter(t, 1000, 2)
		l := w.firstLook()
		for range rotations {
			w.rotate()
		}
		for range rotations { // told late, as to a thread that had no turn
			l.moved(inotify.Event{Mask: unix.IN_MOVED_TO, Name: []byte("c-json.log.1")})
			l.moved(created)
		}
		must.Eq(t, wantLost, l.takeLost(), must.Sprint(rotations, " rotations"))
		w.rotate()
		l.moved(created)
		must.False(t, l.takeLost(), must.Sprint("one more after ", rotations))
		l.close()
	}
}

// When the kernel dropped events, only what is there can be compared.
func TestRotationsNotTold(t *testing.T) {
	for rotations, wantLost := range map[int]bool{0: false, 1: false, 2: true} {
		w := newEngineWriter(t, 1000, 2)
		l := w.firstLook()
		for range rotations {
			w.rotate()
		}
		l.moved(inotify.Event{Mask: unix.IN_Q_OVERFLOW})
		must.Eq(t, wantLost, l.takeLost(), must.Sprint(rotations, " rotations"))
		w.rotate()
		l.moved(inotify.Event{Mask: unix.IN_CREATE, Name: []byte("c-json.log")})
		must.False(t, l.takeLost(), must.Sprint("one more after ", rotations))
		l.close()
	}
}

// In the middle of a rotation no file has the log's name; the log is not gone,
// though the file that we have is.
func TestMiddleOfRotation(t *testing.T) {
	w := newEngineWriter(t, 1000, 2)
	l := w.firstLook()
	t.Cleanup(l.close)
	w.rotate()
	must.NoError(t, os.Rename(w.path, w.path+".1")) // not told of the first yet
	must.False(t, l.scan())
	must.False(t, l.vanished())

	must.NoError(t, os.Remove(w.path+".1"))
	must.False(t, l.scan())
	must.True(t, l.vanished())
}

// With max-file=1 engines from 23.0 on remove the only file and make the next.
func TestOnlyFileMadeAnew(t *testing.T) {
	w := newEngineWriter(t, 1_000_000, 1)
	sink := &memory{}
	var events told
	s := w.direct(sink, events.emit)
	for range 5 {
		w.line()
		eventually(t, "the line", func() bool { return sink.text(stdout) == w.want(1) })
		must.NoError(t, w.file.Close())
		must.NoError(t, os.Remove(w.path))
		w.open()
	}
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.SliceEmpty(t, events.list)

	l := w.firstLook()
	t.Cleanup(l.close)
	must.NoError(t, os.Remove(w.path))
	l.moved(inotify.Event{Mask: unix.IN_DELETE, Name: []byte("c-json.log")})
	must.True(t, l.vanished())
	must.NoError(t, w.file.Close())
	w.open()
	l.moved(inotify.Event{Mask: unix.IN_CREATE, Name: []byte("c-json.log")})
	must.False(t, l.vanished())
	must.False(t, l.takeLost())
}

// A look that fails for want of descriptors is made good by the reader.
func TestFailedLook(t *testing.T) {
	w := newEngineWriter(t, 1000, 2)
	l := w.firstLook()
	t.Cleanup(l.close)
	must.False(t, l.retry())
	must.NoError(t, os.Rename(w.path, w.path+".kept"))
	must.NoError(t, os.Symlink(w.path, w.path)) // cannot be opened
	l.moved(inotify.Event{Mask: unix.IN_CREATE, Name: []byte("c-json.log")})
	must.False(t, l.retry())
	must.NoError(t, os.Remove(w.path))
	must.NoError(t, os.Rename(w.path+".kept", w.path+".1"))
	must.NoError(t, w.file.Close())
	w.open()
	must.True(t, l.retry())
	must.False(t, l.retry())
	must.False(t, l.takeLost())
}

// A log that ended in the middle of a rotation is read through the engine.
func TestEndInTheMiddleOfRotation(t *testing.T) {
	w := newEngineWriter(t, 1000, 2)
	w.line()
	must.NoError(t, os.Rename(w.path, w.path+".1"))
	sink := &memory{}
	s := w.direct(sink, nil)
	w.engine.mu.Lock()
	w.engine.running, w.engine.entries = false, []entry{{time: 1, data: []byte("by the engine\n")}}
	w.engine.mu.Unlock()
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, "by the engine\n", sink.text(stdout))
}

// Loss is told exactly also if the first look fell into a rotation.
func TestRotationsCountedFromTheMiddle(t *testing.T) {
	created := inotify.Event{Mask: unix.IN_CREATE, Name: []byte("c-json.log")}
	for rotations, wantLost := range map[int]bool{0: false, 1: false, 2: false, 3: true} {
		w := newEngineWriter(t, 1000, 2)
		must.NoError(t, os.Rename(w.path, w.path+".1"))
		l := &logFiles{path: w.path, wake: make(chan struct{}, 1)}
		must.Zero(t, l.begin())
		must.Eq(t, 1, l.found)
		must.NoError(t, w.file.Close())
		w.open()
		l.moved(created)
		for range rotations {
			w.rotate()
		}
		for range rotations {
			l.moved(created)
		}
		must.Eq(t, wantLost, l.takeLost(), must.Sprint(rotations, " rotations"))
		l.close()
	}
}

// A log that is first looked at in the middle of a rotation is waited for.
func TestFirstLookInTheMiddleOfRotation(t *testing.T) {
	w := newEngineWriter(t, 1000, 2)
	w.line()
	must.NoError(t, os.Rename(w.path, w.path+".1"))
	sink := &memory{}
	s := w.direct(sink, nil)
	eventually(t, "the shipper watches", func() bool { return watches(t, filepath.Dir(w.path)) })
	must.NoError(t, w.file.Close())
	w.open()
	w.line()
	must.NoError(t, s.Drain(t.Context()))
	s.Close()
	must.Eq(t, w.want(1), sink.text(stdout))
}

// watches says whether an inotify instance of this process watches the directory.
func watches(t *testing.T, dir string) bool {
	t.Helper()
	var stat unix.Stat_t
	must.NoError(t, unix.Stat(dir, &stat))
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	must.NoError(t, err)
	for _, info := range infos {
		text, err := os.ReadFile(info)
		if err == nil && strings.Contains(string(text), fmt.Sprintf(" ino:%x ", stat.Ino)) {
			return true
		}
	}
	return false
}

func uniqueLines(s string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(s) {
		set[line] = true
	}
	return set
}

// Following: lines arrive while the shipper waits, and it ends with the
// container's directory.
func TestDirectFollows(t *testing.T) {
	w := newEngineWriter(t, 1_000_000, 2)
	sink := &memory{}
	s := w.direct(sink, nil)
	for range 20 {
		w.line()
		eventually(t, "the line", func() bool { return sink.text(stdout) == w.want(1) })
	}
	w.engine.mu.Lock()
	w.engine.gone = true
	w.engine.mu.Unlock()
	must.NoError(t, os.RemoveAll(filepath.Dir(w.path)))
	<-s.Done()
	s.Close()
}

// Other log drivers, compressed files and files that are not here are read
// through the engine.
func TestReadable(t *testing.T) {
	w := newEngineWriter(t, 1000, 2)
	for _, tc := range []struct {
		name   string
		config container.LogConfig
		path   string
		want   bool
	}{
		{"json-file", container.LogConfig{Type: "json-file"}, w.path, true},
		{"local", container.LogConfig{Type: "local"}, w.path, false},
		{"compressed", container.LogConfig{Type: "json-file", Config: map[string]string{"compress": "true"}}, w.path, false},
		{"elsewhere", container.LogConfig{Type: "json-file"}, w.path + ".none", false},
		{"another name", container.LogConfig{Type: "json-file"}, "/etc/hostname", false},
		{"no path", container.LogConfig{Type: "json-file"}, "", false},
	} {
		engine := &fakeLog{logPath: tc.path, config: tc.config}
		info, err := engine.ContainerInspect(t.Context(), "c")
		must.NoError(t, err)
		_, got := readable(info)
		must.Eq(t, tc.want, got, must.Sprint(tc.name))
	}
}
