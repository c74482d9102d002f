// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shoenig/test/must"
)

// task-driver IM-11: the sums and the text; objects come byte by byte.
func TestProgressText(t *testing.T) {
	stream := `{"status":"Pulling from library/x","id":"1"}
{"status":"Already exists","progressDetail":{},"id":"aa"}
{"status":"Pulling fs layer","progressDetail":{},"id":"bb"}{"status":"Pulling fs layer","progressDetail":{},"id":"cc"}
{"status":"Downloading","progressDetail":{"current":1048576,"total":4194304},"id":"bb"}
{"status":"Download complete","progressDetail":{},"id":"bb"}
{"status":"Downloading","progressDetail":{"current":1048576,"total":4194304},"id":"cc"}
`
	begun := time.Unix(100, 0)
	p := newProgress(begun)
	err := eachMessage(iotest.OneByteReader(strings.NewReader(stream)), func(m message) { p.see(m, begun) })
	must.NoError(t, err)
	must.Eq(t, "Docker image pull progress: Pulled 1/3 (5MiB/8MiB) layers: 0 waiting/2 pulling - est 6s remaining", p.text(begun.Add(10*time.Second)))
	p.see(message{ID: "bb", Status: "Extracting", ProgressDetail: detail(2<<20, 4<<20)}, begun)
	must.Eq(t, "Docker image pull progress: Pulled 1/3 (5MiB/8MiB) layers: 0 waiting/2 pulling/1 extracting (2MiB/8MiB) - est 6s remaining", p.text(begun.Add(10*time.Second)))
	p.see(message{ID: "bb", Status: "Pull complete"}, begun)
	p.see(message{ID: "cc", Status: "Pull complete"}, begun)
	must.Eq(t, "Docker image pull progress: Pulled 3/3 (8MiB/8MiB) layers: 0 waiting/0 pulling", p.text(begun.Add(10*time.Second)))
	must.Eq(t, `the last message was "Pull complete" of "cc"`, p.lastMessage())
}

// detail makes a message's progressDetail.
func detail(current, total int64) (d struct {
	Current int64 `json:"current"`
	Total   int64 `json:"total"`
}) {
	d.Current, d.Total = current, total
	return d
}

// task-driver AN-4: errors inside a stream with status 200, new and old form.
func TestStreamError(t *testing.T) {
	for _, stream := range []string{
		`{"status":"x"}{"errorDetail":{"message":"went wrong"},"error":"old text"}`,
		`{"error":"went wrong"}`,
	} {
		must.EqError(t, eachMessage(strings.NewReader(stream), func(message) {}), "went wrong")
	}
	err := eachMessage(strings.NewReader(`{"status":`), func(message) {})
	must.ErrorIs(t, err, io.ErrUnexpectedEOF)
	must.ErrorContains(t, eachMessage(strings.NewReader("<html>"), func(message) {}), "broke off")
}

// task-driver IM-10: unpacking counts as activity.
func TestSilence(t *testing.T) {
	begun := time.Unix(100, 0)
	for status, want := range map[string]time.Duration{
		"Downloading": time.Minute, "Waiting": time.Minute, "Pulling fs layer": time.Minute,
		"Extracting": 0, "Verifying Checksum": 0, "Download complete": 0, "Pull complete": 0,
	} {
		p := newProgress(begun)
		p.see(message{ID: "aa", Status: status, ProgressDetail: detail(1, 2)}, begun)
		must.Eq(t, want, p.silence(begun.Add(time.Minute)), must.Sprint(status))
	}
}
