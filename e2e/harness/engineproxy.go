// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// EngineProxy stands between the driver and the engine and can do something at
// the moment of a certain request: end the driver, for one. The driver itself needs
// no fault points for that. Safe for concurrent use.
type EngineProxy struct {
	socket string
	server *http.Server

	mu  sync.Mutex // guards everything below
	cut *Cut
}

// Cut is a moment in the life of a request to the engine.
type Cut struct {
	// Method and Path, a pattern for the path without its version, say which one;
	// the first that fits is the last one, too.
	Method string
	Path   *regexp.Regexp
	// Answered: the engine has done it, and its answer never arrives. Else the
	// engine is never asked.
	Answered bool
	// Do is what happens then.
	Do func()

	done chan struct{}
}

// Done is closed when the moment has come and Do is over.
func (c *Cut) Done() <-chan struct{} { return c.done }

var apiVersion = regexp.MustCompile(`^/v[0-9.]+`)

// StartEngineProxy makes a socket in a folder that leads to the engine's.
func StartEngineProxy(dir string, engine *Engine) (*EngineProxy, error) {
	network, address, _ := strings.Cut(engine.Host(), "://")
	p := &EngineProxy{socket: filepath.Join(dir, "engine.sock")}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		return nil, err
	}
	quiet := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "engine"})
			r.Out.Host = "engine"
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}},
		FlushInterval: -1, // progress and logs are streams
		ErrorLog:      quiet,
		ModifyResponse: func(answer *http.Response) error {
			if cut := p.take(answer.Request, true); cut != nil {
				cut.happen()
				return http.ErrAbortHandler
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut := p.take(r, false); cut != nil {
			cut.happen()
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// Host is what the driver's "endpoint" should be.
func (p *EngineProxy) Host() string { return "unix://" + p.socket }

// Close ends the proxy and the requests under way.
func (p *EngineProxy) Close() error { return p.server.Close() }

// Expect sets the next moment.
func (p *EngineProxy) Expect(cut *Cut) {
	cut.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// take gives the moment to the request that it waits for.
func (p *EngineProxy) take(r *http.Request, answered bool) *Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := p.cut
	if cut == nil || cut.Answered != answered || r.Method != cut.Method || !cut.Path.MatchString(apiVersion.ReplaceAllString(r.URL.Path, "")) {
		return nil
	}
	p.cut = nil
	return cut
}

func (c *Cut) happen() {
	c.Do()
	close(c.done)
}
