// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shoenig/test/must"
)

// logDir makes an allocation's log directory.
func logDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "alloc", "logs")
	must.NoError(t, os.MkdirAll(dir, 0o777))
	return dir
}

// filesIn reads the stdout files of the task "t", by index.
func filesIn(t *testing.T, dir string) map[int]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	found := map[int]string{}
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "t.stdout.%d", &n); err == nil {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must.NoError(t, err)
			found[n] = string(text)
		}
	}
	return found
}

func filesConfig(dir string, maxFiles int) FilesConfig {
	return FilesConfig{
		Dir: dir, Task: "t", MaxFiles: maxFiles, MaxFileSizeMiB: 1,
		Container: "c", StateDir: filepath.Join(filepath.Dir(dir), "..", "state"),
	}
}

// Limits are exact, whole lines stay in one file, nothing is lost between.
func TestRotation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	dir := logDir(t)
	rot, err := openRotator(filesConfig(dir, 1000), "stdout")
	must.NoError(t, err)
	rot.maxSize = 10000
	var want []byte
	for range 3000 {
		line := bytes.Repeat([]byte("x"), r.IntN(300))
		if r.IntN(10) > 0 {
			line = append(line, '\n')
		}
		must.NoError(t, rot.write(line))
		want = append(want, line...)
	}
	rot.close()
	var got string
	found := filesIn(t, dir)
	for i := range len(found) {
		must.LessEq(t, 10000, len(found[i]))
		if i < len(found)-1 {
			must.True(t, strings.HasSuffix(found[i], "\n"), must.Sprintf("file %d ends within a line", i))
			must.Greater(t, 4000, len(found[i]))
		}
		got += found[i]
	}
	must.Eq(t, string(want), got)
}

func TestRotationCases(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tc := range []struct {
		name   string
		writes []string
		want   []int // sizes of the files
	}{
		{"exactly full", []string{x(99) + "\n", x(9) + "\n"}, []int{100, 10}},
		{"a line that does not fit", []string{x(59) + "\n", x(59) + "\n"}, []int{60, 60}},
		{"lines of one write", []string{x(39) + "\n" + x(39) + "\n" + x(39) + "\n"}, []int{80, 40}},
		{"a line in parts finds room", []string{x(59) + "\n", x(30), x(30), x(9) + "\n"}, []int{60, 70}},
		{"a line longer than any file", []string{x(9) + "\n", x(250) + "\n"}, []int{10, 100, 100, 51}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := logDir(t)
			rot, err := openRotator(filesConfig(dir, 1000), "stdout")
			must.NoError(t, err)
			rot.maxSize = 100
			for _, text := range tc.writes {
				must.NoError(t, rot.write([]byte(text)))
			}
			rot.close()
			found := filesIn(t, dir)
			var got []int
			for i := range len(found) {
				got = append(got, len(found[i]))
			}
			must.Eq(t, tc.want, got)
		})
	}
}

func TestOldestFilesAreRemoved(t *testing.T) {
	dir := logDir(t)
	for _, other := range []string{"t.stderr.0", "t.stdout.x", "other.stdout.0"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, other), nil, 0o600))
	}
	rot, err := openRotator(filesConfig(dir, 3), "stdout")
	must.NoError(t, err)
	rot.maxSize = 10
	for range 20 {
		must.NoError(t, rot.write([]byte("123456789\n")))
	}
	rot.close()
	must.Eq(t, []int{17, 18, 19}, indexes(filesIn(t, dir)))
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	must.Len(t, 6, entries)
}

func indexes(found map[int]string) []int {
	var list []int
	for i := range found {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

// A process that dies between the files and the position: the next one ships
// that much less. A new container appends after all that.
func TestFilesResume(t *testing.T) {
	dir := logDir(t)
	cfg := filesConfig(dir, 10)
	first := Files(cfg).(*files)
	pos, err := first.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, position{}, pos)
	pos.Last = 1
	must.NoError(t, first.write(t.Context(), chunk{data: []byte("one\n"), after: pos}))
	must.NoError(t, first.out[stdout].write([]byte("tw"))) // and killed
	first.detach()

	second := Files(cfg).(*files)
	pos, err = second.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, 1, pos.Last)
	must.Eq(t, [streams]int64{2, 0}, pos.Ahead)
	second.detach() // killed again, having written nothing

	third := Files(cfg).(*files)
	pos, err = third.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, [streams]int64{2, 0}, pos.Ahead)
	out := batch{pos: pos}
	out.add(entry{stream: stdout, time: 2, data: []byte("two\n")})
	c, ok := out.chunk()
	must.True(t, ok)
	must.NoError(t, third.write(t.Context(), c))
	third.detach()
	must.Eq(t, map[int]string{0: "one\ntwo\n"}, filesIn(t, dir))

	cfg.Container = "another"
	other := Files(cfg)
	pos, err = other.attach(t.Context())
	must.NoError(t, err)
	must.Eq(t, [streams]int64{}, pos.Ahead)
	must.NoError(t, other.write(t.Context(), chunk{data: []byte("three\n"), after: pos}))
	other.discard()
	must.Eq(t, map[int]string{0: "one\ntwo\nthree\n"}, filesIn(t, dir))
	_, err = os.Stat(positionPath(cfg.StateDir, "another"))
	must.ErrorIs(t, err, os.ErrNotExist)
}

// The task owns the directory: what it puts in place of a file or a pipe must
// not lead us anywhere.
func TestPlantedFiles(t *testing.T) {
	dir := logDir(t)
	victim := filepath.Join(t.TempDir(), "victim")
	must.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	plant := filepath.Join(dir, "t.stdout.0")
	refused := func() {
		t.Helper()
		_, err := openRotator(filesConfig(dir, 1), "stdout")
		must.Error(t, err)
		_, err = openPipe(plant)
		must.Error(t, err)
	}
	must.NoError(t, os.Symlink(victim, plant))
	refused()
	must.NoError(t, os.Remove(plant))
	must.NoError(t, os.Mkdir(plant, 0o700))
	refused()
	must.NoError(t, os.Remove(plant))
	must.NoError(t, unix.Mkfifo(plant, 0o600))
	_, err := openRotator(filesConfig(dir, 1), "stdout")
	must.ErrorContains(t, err, "no regular file")
	must.NoError(t, os.Remove(plant))
	must.NoError(t, os.WriteFile(plant, nil, 0o600))
	_, err = openPipe(plant)
	must.ErrorContains(t, err, "not a named pipe")

	// The directory itself.
	must.NoError(t, os.RemoveAll(dir))
	must.NoError(t, os.Symlink(filepath.Dir(victim), dir))
	refused()
	raw, err := os.ReadFile(victim)
	must.NoError(t, err)
	must.Eq(t, "precious", string(raw))
}
