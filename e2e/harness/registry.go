// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is an image registry on loopback, plain HTTP, that keeps images in
// memory and notes what it is asked. Safe for concurrent use.
type Registry struct {
	// Host is its name in references, "127.0.0.1:port".
	Host string

	server  *http.Server
	inner   http.Handler
	traffic atomic.Int64 // bytes on the wire, both ways

	mu             sync.Mutex // guards everything below
	requests       []RegistryRequest
	configs        map[string]bool  // digests that manifests call a configuration
	huge           map[string]int64 // sizes of layers that exist only when asked for
	user, password string           // both empty: no credentials are needed
	answer         func(w http.ResponseWriter, r *http.Request) bool
}

// RegistryRequest is a question that a registry was asked.
type RegistryRequest struct {
	Method, Path string
	Kind         string // "ping", "manifest", "config", "layer"
	Asker        string // first word of the asker's name: "gpu-docker", or "docker/20.10.24"
	User         string // of the credentials; empty without
	Status       int
	Took         time.Duration // until the answer was written
}

// StartRegistry starts an empty registry.
func StartRegistry() (*Registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Registry{
		Host:    l.Addr().String(),
		inner:   registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		configs: map[string]bool{}, huge: map[string]int64{},
	}
	r.server = &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = r.server.Serve(countingListener{l, &r.traffic}) }()
	return r, nil
}

// Close ends the registry and the answers under way.
func (r *Registry) Close() error { return r.server.Close() }

// Protect demands credentials (basic authentication) from now on.
func (r *Registry) Protect(user, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.user, r.password = user, password
}

// Intercept lets f answer; where it returns false, the registry does. Nil ends it.
func (r *Registry) Intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// Forget starts the notes anew.
func (r *Registry) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
	r.traffic.Store(0)
}

// Requests are the questions since the last Forget, in the order of their answers.
func (r *Registry) Requests() []RegistryRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]RegistryRequest(nil), r.requests...)
}

// Traffic counts the bytes that went over the wire since the last Forget, both
// ways, headers included.
func (r *Registry) Traffic() int64 { return r.traffic.Load() }

// Asker is the first word of the name that a client gives itself.
func Asker(r *http.Request) string {
	name, _, _ := strings.Cut(r.UserAgent(), " ")
	return name
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	begun := time.Now()
	user, password, _ := req.BasicAuth()
	noted := RegistryRequest{Method: req.Method, Path: req.URL.Path, Asker: Asker(req), User: user}
	r.mu.Lock()
	noted.Kind = r.kind(req)
	refused := r.user+r.password != "" && (user != r.user || password != r.password)
	answer, size := r.answer, r.huge[lastElement(req.URL.Path)]
	r.mu.Unlock()

	out := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	switch {
	case answer != nil && answer(out, req):
	case refused:
		out.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(out, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}`, http.StatusUnauthorized)
	case size > 0:
		r.serveHuge(out, req, size)
	default:
		r.noteConfig(req)
		r.inner.ServeHTTP(out, req)
	}
	noted.Status, noted.Took = out.status, time.Since(begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, noted)
}

// kind tells what is asked for; its caller holds the lock.
func (r *Registry) kind(req *http.Request) string {
	switch {
	case strings.Contains(req.URL.Path, "/manifests/"):
		return "manifest"
	case r.configs[lastElement(req.URL.Path)]:
		return "config"
	case strings.Contains(req.URL.Path, "/blobs/"):
		return "layer"
	}
	return "ping"
}

func lastElement(path string) string { return path[strings.LastIndex(path, "/")+1:] }

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// countingListener counts the bytes of its connections.
type countingListener struct {
	net.Listener
	total *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c, l.total}, nil
}

type countingConn struct {
	net.Conn
	total *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.total.Add(int64(n))
	return n, err
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.total.Add(int64(n))
	return n, err
}
