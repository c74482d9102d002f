// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// shortDir is a directory whose path fits into a socket address.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "gd-sock-")
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "plugins")
}

func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
}

func TestSocketServes(t *testing.T) {
	dir := shortDir(t)
	l, err := ListenSocket(dir)
	must.NoError(t, err)
	fi, err := os.Stat(dir)
	must.NoError(t, err)
	must.Eq(t, os.ModeDir|0o700, fi.Mode())
	must.Eq(t, []string{"nvidia-docker.sock"}, listTree(t, dir))

	srv := &http.Server{Handler: newStore(t, Config{}, &fakeHost{}).Handler()}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	req, err := http.NewRequest(http.MethodPost, "http://plugin/Plugin.Activate", nil)
	must.NoError(t, err)
	req.Header.Set("Accept", acceptV12)
	resp, err := socketClient(SocketPath(dir)).Do(req)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, 200, resp.StatusCode)
	must.NoError(t, Ping(t.Context(), dir))
	must.NoError(t, srv.Close())
	must.ErrorIs(t, <-done, http.ErrServerClosed)
	must.SliceEmpty(t, listTree(t, dir))
	must.ErrorContains(t, Ping(t.Context(), dir), "volume plugin not ready")
}

func TestSocketOfLiveProcessIsLeftAlone(t *testing.T) {
	dir := shortDir(t)
	first, err := ListenSocket(dir)
	must.NoError(t, err)
	_, err = ListenSocket(dir)
	var taken *SocketTakenError
	must.True(t, errors.As(err, &taken))
	must.Eq(t, os.Getpid(), taken.PID)
	must.Eq(t, SocketPath(dir), taken.Path)
	must.NoError(t, first.Close())
	second, err := ListenSocket(dir)
	must.NoError(t, err)
	must.NoError(t, second.Close())
}

// TestPingDoesNotWait: a process that accepts and never answers counts as dead
// within a second or so.
func TestPingDoesNotWait(t *testing.T) {
	dir := shortDir(t)
	silent, err := ListenSocket(dir)
	must.NoError(t, err)
	began := time.Now()
	err = Ping(t.Context(), dir)
	must.ErrorIs(t, err, context.DeadlineExceeded)
	must.StrContains(t, err.Error(), "volume plugin not ready")
	must.Less(t, 10*time.Second, time.Since(began))
	must.NoError(t, silent.Close())
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := shortDir(t)
	must.NoError(t, os.Mkdir(dir, 0o700))
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: SocketPath(dir), Net: "unix"})
	must.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	must.NoError(t, dead.Close())
	l, err := ListenSocket(dir)
	must.NoError(t, err)
	c, err := net.Dial("unix", SocketPath(dir))
	must.NoError(t, err)
	must.NoError(t, c.Close())
	must.NoError(t, l.Close())
}

// TestCloseLeavesOthersSocket: after a take-over the name belongs to another.
func TestCloseLeavesOthersSocket(t *testing.T) {
	dir := shortDir(t)
	l, err := ListenSocket(dir)
	must.NoError(t, err)
	must.NoError(t, os.Remove(SocketPath(dir)))
	other, err := ListenSocket(dir)
	must.NoError(t, err)
	must.NoError(t, l.Close())
	must.Eq(t, []string{"nvidia-docker.sock"}, listTree(t, dir))
	must.NoError(t, other.Close())
}

func TestSocketRefusals(t *testing.T) {
	dir := shortDir(t)
	must.NoError(t, os.Mkdir(dir, 0o700))
	must.NoError(t, os.WriteFile(SocketPath(dir), nil, 0o600))
	_, err := ListenSocket(dir)
	must.ErrorContains(t, err, "not a socket; remove it")

	_, err = ListenSocket(filepath.Join(dir, strings.Repeat("d", 120)))
	must.ErrorContains(t, err, "volume socket")
	_, err = ListenSocket(SocketPath(dir))
	must.ErrorContains(t, err, "not a directory")
}
