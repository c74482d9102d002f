// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/shoenig/test/must"
)

// events collects what a caller is told.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) emit(message string, _ map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, message)
}

func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.list...)
}

// coordinator makes one on a fake engine, with GC off.
func coordinator(t *testing.T, f *fakeEngine) *Coordinator {
	t.Helper()
	c := New(Config{Engine: func() Engine { return f }})
	t.Cleanup(c.Close)
	return c
}

// kindOf is the kind of an *Error.
func kindOf(t *testing.T, err error) Kind {
	t.Helper()
	var known *Error
	must.True(t, errors.As(err, &known), must.Sprintf("%v", err))
	return known.Kind
}

// task-driver IM-2, IM-3.
func TestResolveLocalOrNot(t *testing.T) {
	for _, tc := range []struct {
		name  string
		req   Request
		pulls int
	}{
		{"a local hit asks no registry", Request{Ref: "busybox:1"}, 0},
		{"force_pull", Request{Ref: "busybox:1", ForcePull: true}, 1},
		{"latest", Request{Ref: "busybox:latest"}, 1},
		{"no tag", Request{Ref: "busybox"}, 1},
		{"https", Request{Ref: "https://busybox:1"}, 0},
		{"not there", Request{Ref: "busybox:2"}, 1},
		{"other platform", Request{Ref: "busybox:1", Platform: "linux/amd64"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakeEngine()
			f.local["busybox:1"], f.local["busybox:latest"] = "id1", "idl"
			f.remote["busybox:1"], f.remote["busybox:2"], f.remote["busybox:latest"] = "id1", "id2", "idl2"
			id, err := coordinator(t, f).Resolve(t.Context(), tc.req, Caller{ID: "a"})
			must.NoError(t, err)
			must.StrHasPrefix(t, "id", id)
			must.Eq(t, tc.pulls, f.pullCount())
		})
	}
}

func TestResolveByID(t *testing.T) {
	f := newFakeEngine()
	id := "sha256:" + strings.Repeat("ab", 32)
	c := coordinator(t, f)
	_, err := c.Resolve(t.Context(), Request{Ref: id}, Caller{ID: "a"})
	must.Eq(t, KindNotFound, kindOf(t, err))
	f.local["x:1"] = id
	got, err := c.Resolve(t.Context(), Request{Ref: id, ForcePull: true}, Caller{ID: "a"})
	must.NoError(t, err)
	must.Eq(t, id, got)
	must.Eq(t, 0, f.pullCount())
}

// task-driver IM-6, W15.
func TestResolveLoad(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "image.tar"), []byte("tar"), 0o600))
	outside := filepath.Join(t.TempDir(), "outside.tar")
	must.NoError(t, os.WriteFile(outside, []byte("tar"), 0o600))
	must.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.tar")))
	must.NoError(t, os.Symlink("image.tar", filepath.Join(dir, "inner.tar")))
	for _, tc := range []struct {
		name, load, stream, wantErr string
	}{
		{"plain", "image.tar", `{"stream":"Loaded image: x:1\n"}`, ""},
		{"a link inside", "inner.tar", "", ""},
		{"dots that stay inside", "a/../image.tar", "", ""},
		{"error in the stream", "image.tar", `{"errorDetail":{"message":"invalid tar header"},"error":"invalid tar header"}`, "invalid tar header"},
		{"missing", "none.tar", "", "unable to open image archive"},
		{"a link outside", "link.tar", "", "unable to open image archive"},
		{"dots outside", "../outside.tar", "", "unable to open image archive"},
		{"absolute", outside, "", "unable to open image archive"},
		{"a directory", ".", "", "unable to open image archive"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakeEngine()
			f.remote["x:1"], f.loadStream = "id1", tc.stream
			id, err := coordinator(t, f).Resolve(t.Context(), Request{Ref: "x:1", Load: tc.load, LoadDir: dir, ForcePull: true}, Caller{ID: "a"})
			if tc.wantErr == "" {
				must.NoError(t, err)
				must.Eq(t, "id1", id)
				must.Eq(t, 0, f.pullCount())
				return
			}
			must.ErrorContains(t, err, tc.wantErr)
			must.Eq(t, KindArchive, kindOf(t, err))
		})
	}
	t.Run("the archive holds another image", func(t *testing.T) {
		f := newFakeEngine()
		_, err := coordinator(t, f).Resolve(t.Context(), Request{Ref: "y:1", Load: "image.tar", LoadDir: dir}, Caller{ID: "a"})
		must.ErrorContains(t, err, `does not hold image "y:1"`)
	})
}

// task-driver IM-8: one pull for all, each with its own events; a later start
// asks again.
func TestPullsAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.remote["busybox:latest"] = "id1"
		f.feed = func(*io.PipeWriter) { <-time.After(time.Second) }
		c := New(Config{Engine: func() Engine { return f }})
		defer c.Close()
		var all sync.WaitGroup
		seen := make([]events, 10)
		for i := range seen {
			all.Go(func() {
				ref := []string{"busybox", "docker.io/library/busybox:latest"}[i%2]
				id, err := c.Resolve(t.Context(), Request{Ref: ref}, Caller{ID: fmt.Sprint(i), Emit: seen[i].emit})
				must.NoError(t, err)
				must.Eq(t, "id1", id)
			})
		}
		all.Wait()
		must.Eq(t, 1, f.pullCount())
		for i := range seen {
			must.Eq(t, "Downloading image", seen[i].all()[0])
			must.StrContains(t, seen[i].all()[1], "pulled id1")
		}
		_, err := c.Resolve(t.Context(), Request{Ref: "busybox"}, Caller{ID: "late"})
		must.NoError(t, err)
		must.Eq(t, 2, f.pullCount())
	})
}

// task-driver IM-8, W5: other credentials or another platform are another pull.
func TestPullsAreNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.remote["busybox:latest"] = "id1"
		f.feed = func(*io.PipeWriter) { <-time.After(time.Second) }
		c := New(Config{Engine: func() Engine { return f }})
		defer c.Close()
		var all sync.WaitGroup
		for _, req := range []Request{
			{Ref: "busybox"},
			{Ref: "busybox", Platform: "linux/amd64"},
			{Ref: "busybox", Credentials: CredentialSource{Task: Auth{Username: "u", Password: "1"}}},
			{Ref: "busybox", Credentials: CredentialSource{Task: Auth{Username: "u", Password: "2"}}},
		} {
			all.Go(func() {
				_, err := c.Resolve(t.Context(), req, Caller{ID: "a"})
				must.NoError(t, err)
			})
		}
		all.Wait()
		must.Eq(t, 4, f.pullCount())
	})
}

// cases DRV-08: cancelling one caller does not cancel the other; the last one
// takes the pull along, at once.
func TestCancelOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.remote["busybox:1"] = "id1"
		f.feed = func(*io.PipeWriter) { <-time.After(time.Hour) }
		c := New(Config{Engine: func() Engine { return f }})
		defer c.Close()
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.Resolve(first, Request{Ref: "busybox:1"}, Caller{ID: "a"})
			must.ErrorIs(t, err, context.Canceled)
		})
		all.Go(func() {
			id, err := c.Resolve(t.Context(), Request{Ref: "busybox:1"}, Caller{ID: "b"})
			must.NoError(t, err)
			must.Eq(t, "id1", id)
		})
		synctest.Wait()
		begun := time.Now()
		cancel()
		all.Wait()
		must.Eq(t, time.Hour, time.Since(begun))
		must.Eq(t, 1, f.pullCount())

		alone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		_, err := c.Resolve(alone, Request{Ref: "busybox:1", ForcePull: true}, Caller{ID: "a"})
		must.ErrorIs(t, err, context.DeadlineExceeded)
		must.Eq(t, time.Second, time.Since(begun))
		must.MapEmpty(t, c.flights)
		time.Sleep(time.Hour) // the fake's feeder; time is simulated
	})
}

// trickle sends a progress message each second for d.
func trickle(status string, d time.Duration) func(w *io.PipeWriter) {
	return func(w *io.PipeWriter) {
		for i := range int64(d / time.Second) {
			<-time.After(time.Second)
			_, err := fmt.Fprintf(w, `{"status":%q,"id":"aa","progressDetail":{"current":%d,"total":100000}}`, status, i)
			if err != nil {
				return
			}
		}
	}
}

// cases DRV-07: a trickling pull of seven minutes succeeds with a limit of 15,
// and each caller has its own limit.
func TestTotalTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.remote["busybox:1"] = "id1"
		f.feed = trickle("Downloading", 7*time.Minute-time.Second)
		c := New(Config{Engine: func() Engine { return f }})
		defer c.Close()
		var told events
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.Resolve(t.Context(), Request{Ref: "busybox:1", Timeout: 15 * time.Minute, ActivityTimeout: 2 * time.Minute}, Caller{ID: "a", Emit: told.emit})
			must.NoError(t, err)
		})
		all.Go(func() {
			_, err := c.Resolve(t.Context(), Request{Ref: "busybox:1", Timeout: 5 * time.Minute}, Caller{ID: "b"})
			must.Eq(t, KindTimeout, kindOf(t, err))
			must.True(t, structs.IsRecoverable(err))
			must.ErrorContains(t, err, `not finished within image_pull_timeout "5m0s": the last message was "Downloading" of "aa"`)
		})
		all.Wait()
		must.Eq(t, 1, f.pullCount())
		// 15 s, 1 min, 3 min, 5 min, and no more than that (task-driver IM-12).
		list := told.all()
		must.Len(t, 6, list, must.Sprint(strings.Join(list, "\n")))
		must.StrContains(t, list[5], "pulled id1 1MiB in 6m59s")
	})
}

// task-driver IM-10: silence ends a download but not an extraction.
func TestActivityTimeout(t *testing.T) {
	for _, tc := range []struct {
		name, status string
		stalls       bool
	}{
		{"download", "Downloading", true},
		{"extraction", "Extracting", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				f.remote["busybox:1"] = "id1"
				f.feed = func(w *io.PipeWriter) {
					trickle(tc.status, 5*time.Second)(w)
					<-time.After(30 * time.Minute)
				}
				c := New(Config{Engine: func() Engine { return f }})
				defer c.Close()
				begun := time.Now()
				_, err := c.Resolve(t.Context(), Request{Ref: "busybox:1", Timeout: time.Hour, ActivityTimeout: 2 * time.Minute}, Caller{ID: "a"})
				if !tc.stalls {
					must.NoError(t, err)
					return
				}
				must.Eq(t, KindStalled, kindOf(t, err))
				must.True(t, structs.IsRecoverable(err))
				must.ErrorContains(t, err, `no progress for pull_activity_timeout "2m0s": the last message was "Downloading" of "aa"`)
				must.Eq(t, 2*time.Minute+5*time.Second, time.Since(begun))
				time.Sleep(time.Hour) // the fake's feeder; time is simulated
			})
		})
	}
}

func TestPullErrors(t *testing.T) {
	f := newFakeEngine()
	c := coordinator(t, f)
	f.streamErr = "write /x: no space left on device"
	_, err := c.Resolve(t.Context(), Request{Ref: "busybox:1"}, Caller{ID: "a"})
	must.Eq(t, KindDiskFull, kindOf(t, err))
	f.pullErr = errors.New("dial tcp: lookup x: no such host")
	_, err = c.Resolve(t.Context(), Request{Ref: "busybox:1"}, Caller{ID: "a"})
	must.Eq(t, KindDNS, kindOf(t, err))
	_, err = c.Resolve(t.Context(), Request{Ref: "Busybox"}, Caller{ID: "a"})
	must.Eq(t, KindReference, kindOf(t, err))
}
