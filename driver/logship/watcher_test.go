// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// preferred counts this process's threads with the Watcher's priority.
func preferred(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/self/task/*/stat")
	must.NoError(t, err)
	count := 0
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread has ended
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		if nice := strings.Fields(fields)[16]; nice == "-20" { // proc_pid_stat(5): the 19th of all
			count++
		}
	}
	return count
}

// TestWatcher_thread: a thread waits for new files, with priority over what writes
// them, and no other thread inherits that.
func TestWatcher_thread(t *testing.T) {
	w, err := NewWatcher(hclog.NewNullLogger())
	must.NoError(t, err)
	must.GreaterEq(t, leastProcessors, runtime.GOMAXPROCS(0))
	// Those of earlier tests may be ending still; the first thread of a process
	// never does.
	if err := w.Preferred(); err == nil {
		must.Positive(t, preferred(t))
	} else {
		must.ErrorContains(t, err, "CAP_SYS_NICE")
	}
	before := preferred(t)
	done := make(chan struct{})
	for range 50 { // more threads, for calls that block
		go func() {
			_, _ = os.ReadFile("/proc/self/status")
			done <- struct{}{}
		}()
	}
	for range 50 {
		<-done
	}
	must.LessEq(t, before, preferred(t))
	must.NoError(t, w.Close())
}

// interruptThreads sends all of this process's threads the signal by which Go's
// scheduler takes a processor back.
func interruptThreads(t *testing.T) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	must.NoError(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		must.NoError(t, err)
		_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG) // it may have ended
	}
}

// TestWatcher_interrupted: a signal that reaches the thread while it waits for new
// files does not keep it from its end.
func TestWatcher_interrupted(t *testing.T) {
	for range 20 { // a round may come before the thread waits
		w, err := NewWatcher(hclog.NewNullLogger())
		must.NoError(t, err)
		<-w.begun
		for range 5 {
			interruptThreads(t)
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Close() }()
		select {
		case err := <-ended:
			must.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("Close hangs")
		}
	}
}
