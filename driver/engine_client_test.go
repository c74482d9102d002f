// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/versions"
	"github.com/shoenig/test/must"
)

// fakeDaemon speaks just enough of the engine's HTTP to negotiate with.
type fakeDaemon struct {
	mu       sync.Mutex // guards everything below
	api, min string
	paths    []string
	query    url.Values    // of the newest request
	stream   string        // answer to the question for events, which then stays open
	hang     chan struct{} // closed at the end of the test
}

func (d *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.paths, d.query = append(d.paths, r.URL.Path), r.URL.Query()
	api, least := d.api, d.min
	d.mu.Unlock()
	w.Header().Set("Api-Version", api)
	if asked, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/"); found && strings.HasPrefix(r.URL.Path, "/v") {
		if refusal := refuseVersion(asked, api, least); refusal != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"message":%q}`, refusal)
			return
		}
	}
	switch {
	case r.URL.Path == "/_ping":
		return
	case strings.HasSuffix(r.URL.Path, "/images/x/json"):
		_, _ = fmt.Fprint(w, `{"Id":"sha256:x"}`)
	case strings.HasSuffix(r.URL.Path, "/version"):
		_, _ = fmt.Fprintf(w, `{"Version":"x","ApiVersion":%q,"MinAPIVersion":%q}`, api, least)
	case strings.HasSuffix(r.URL.Path, "/info"):
		_, _ = fmt.Fprint(w, `{"OSType":"linux"}`)
	case strings.HasSuffix(r.URL.Path, "/exec/x/start"): // the process says one word
		_, _ = io.Copy(io.Discard, r.Body) // else the client may still be writing
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello")
			_ = conn.Close()
		}
	case strings.HasSuffix(r.URL.Path, "/events"):
		_, _ = fmt.Fprint(w, d.stream)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default: // a call that is never answered
		select {
		case <-d.hang:
		case <-r.Context().Done():
		}
	}
}

// refuseVersion is what engines say to a version that they do not speak.
func refuseVersion(asked, api, least string) string {
	switch {
	case versions.LessThan(asked, least):
		return fmt.Sprintf("client version %s is too old. Minimum supported API version is %s, please upgrade your client to a newer version", asked, least)
	case versions.GreaterThan(asked, api):
		return fmt.Sprintf("client version %s is too new. Maximum supported API version is %s", asked, api)
	}
	return ""
}

func (d *fakeDaemon) upgrade(api, least string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.api, d.min = api, least
}

// lastPath is the path of the newest request.
func (d *fakeDaemon) lastPath() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paths[len(d.paths)-1]
}

// lastQuery are the parameters of the newest request.
func (d *fakeDaemon) lastQuery() url.Values {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.query
}

// serveDaemon serves it on a unix socket and returns its URL.
func serveDaemon(t *testing.T, d *fakeDaemon) string {
	t.Helper()
	d.hang = make(chan struct{})
	socket := filepath.Join(t.TempDir(), "d.sock")
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: d}}
	server.Start()
	t.Cleanup(func() { close(d.hang); server.Close() })
	return "unix://" + socket
}

// TestNegotiation: the API version is negotiated in every way of connecting
// (task-driver AN-1, cases DRV-25).
func TestNegotiation(t *testing.T) {
	for _, tc := range []struct{ api, min, want string }{
		{"1.24", "1.12", "1.24"},
		{"1.39", "1.12", "1.39"},
		{"1.41", "1.12", "1.41"},
		{"1.44", "1.44", "1.44"},
	} {
		for _, way := range []string{"option", "environment"} {
			t.Run(way+" "+tc.api, func(t *testing.T) {
				url := serveDaemon(t, &fakeDaemon{api: tc.api, min: tc.min})
				at := endpoint{Host: url, Timeout: time.Minute}
				if way == "environment" {
					t.Setenv("DOCKER_HOST", url)
					t.Setenv("DOCKER_API_VERSION", "1.99") // would pin the version
					at.Host = ""
				}
				e, err := newDockerEngine(at)
				must.NoError(t, err)
				defer e.Close()
				_, err = e.Info(t.Context())
				must.NoError(t, err)
				must.Eq(t, tc.want, e.APIVersion())
			})
		}
	}
}

func TestNegotiationAfterAnUpgrade(t *testing.T) {
	d := &fakeDaemon{api: "1.41", min: "1.12"}
	e, err := newDockerEngine(endpoint{Host: serveDaemon(t, d), Timeout: time.Minute})
	must.NoError(t, err)
	defer e.Close()
	_, err = e.Version(t.Context())
	must.NoError(t, err)
	must.StrHasPrefix(t, "/v1.41/", d.lastPath())

	d.upgrade("1.44", "1.44")
	_, err = e.Version(t.Context())
	must.NoError(t, err)
	must.StrHasPrefix(t, "/v1.44/", d.lastPath())

	d.upgrade("1.99", "1.44") // newer than anything we know
	for range 2 {
		_, err = e.Version(t.Context())
		must.NoError(t, err)
		must.Eq(t, e.newest, e.APIVersion())
	}
	d.upgrade("1.41", "1.12")
	_, err = e.Version(t.Context())
	must.NoError(t, err)
	must.Eq(t, "1.41", e.APIVersion())
}

// TestEngineChangedBetweenFingerprints: whatever call comes first after an upgrade
// or a downgrade finds the new version.
func TestEngineChangedBetweenFingerprints(t *testing.T) {
	d := &fakeDaemon{api: "1.41", min: "1.12"}
	e, err := newDockerEngine(endpoint{Host: serveDaemon(t, d), Timeout: time.Minute})
	must.NoError(t, err)
	defer e.Close()
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"info", func() error { _, err := e.Info(t.Context()); return err }},
		{"images", func() error {
			_, err := imageEngine{e.Docker(), e}.ImageInspect(t.Context(), "x")
			return err
		}},
		{"metadata", func() error {
			_, err := metadataEngine{e}.ImageInspect(t.Context(), "x")
			return err
		}},
		{"remove", func() error { return e.Remove(t.Context(), "x") }},
	} {
		for _, now := range [][2]string{{"1.41", "1.12"}, {"1.48", "1.44"}, {"1.41", "1.12"}} {
			d.upgrade(now[0], now[1])
			must.NoError(t, call.do(), must.Sprint(call.name))
			must.StrHasPrefix(t, "/v"+now[0]+"/", d.lastPath())
		}
	}
	t.Run("nothing in common", func(t *testing.T) {
		d.upgrade("1.41", "1.99")
		_, err := e.Info(t.Context())
		must.ErrorContains(t, err, "is too old")
	})
}

func TestTimeouts(t *testing.T) {
	e, err := newDockerEngine(endpoint{Host: serveDaemon(t, &fakeDaemon{api: "1.41", min: "1.12"}), Timeout: 50 * time.Millisecond})
	must.NoError(t, err)
	defer e.Close()
	t.Run("ordinary calls have one", func(t *testing.T) {
		_, err := e.Inspect(t.Context(), "x")
		must.ErrorIs(t, err, context.DeadlineExceeded)
		must.True(t, engineAway(err))
		must.ErrorIs(t, e.Kill(t.Context(), "x", "SIGTERM"), context.DeadlineExceeded)
	})
	t.Run("waiting has none", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := e.Wait(ctx, "x")
		must.ErrorIs(t, err, context.DeadlineExceeded)
		must.GreaterEq(t, 250*time.Millisecond, time.Since(begun))
	})
}

// TestOOMs: the engine is asked for what it remembers as well, and for our
// containers only.
func TestOOMs(t *testing.T) {
	d := &fakeDaemon{api: "1.41", min: "1.12", stream: `{"Type":"container","Action":"oom","Actor":{"ID":"id-1"}}` + "\n"}
	e, err := newDockerEngine(endpoint{Host: serveDaemon(t, d), Timeout: time.Minute})
	must.NoError(t, err)
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	must.ErrorIs(t, e.OOMs(ctx, func(id string) {
		seen = append(seen, id)
		cancel()
	}), context.Canceled)
	must.Eq(t, []string{"id-1"}, seen)
	query := d.lastQuery()
	must.Eq(t, "1", query.Get("since"))
	for _, part := range []string{`"event":{"oom":true}`, `"label":{"io.github.gpu-docker.driver=gpu-docker":true}`, `"type":{"container":true}`} {
		must.StrContains(t, query.Get("filters"), part)
	}
}
