// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/guard"
)

// endpoint serves one address whenever it can be had.
type endpoint struct {
	name  string
	log   hclog.Logger
	retry time.Duration
	// patience is how long requests that run may go on at the end.
	patience time.Duration
	// listen takes the address; nil turns the endpoint off.
	listen  func() (net.Listener, error)
	server  func() *http.Server
	changed func() // called without the lock

	mu    sync.Mutex // guards state
	state Endpoint
}

func newEndpoint(cfg *Config, name, address string) *endpoint {
	return &endpoint{
		name:     name,
		log:      cfg.Logger,
		retry:    cfg.RetryInterval,
		patience: cfg.patience,
		changed:  cfg.Changed,
		state:    Endpoint{State: Off, Address: address},
	}
}

func (e *endpoint) status() Endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// run serves until ctx ends; first is closed when the address was tried once.
func (e *endpoint) run(ctx context.Context, first chan<- struct{}) {
	defer guard.Log(e.log, e.name)
	defer e.set(Stopped, "", "")
	tried := sync.OnceFunc(func() { close(first) })
	defer tried()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		listener, err := e.listen()
		if err != nil {
			e.wait(err)
			tried()
			timer.Reset(e.retry)
			continue
		}
		e.serve(ctx, listener, tried)
		timer.Reset(e.retry)
	}
}

// serve answers until ctx ends or the listener breaks.
func (e *endpoint) serve(ctx context.Context, listener net.Listener, started func()) {
	server := e.server()
	server.ErrorLog = e.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})
	ended := make(chan error, 1)
	go func() { ended <- e.accept(server, listener) }()
	e.set(Serving, realPort(listener), "")
	e.log.Info("serving", "what", e.name, "address", e.status().Address)
	started()
	select {
	case err := <-ended:
		e.log.Error("server ended and will be started again", "what", e.name, "error", err)
		e.set(Waiting, "", err.Error())
	case <-ctx.Done():
		e.shutdown(server)
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			e.log.Warn("server ended with a fault", "what", e.name, "error", err)
		}
	}
}

// accept serves one listener to its end.
func (e *endpoint) accept(server *http.Server, listener net.Listener) (err error) {
	defer guard.Catch(e.log, e.name, &err)
	return server.Serve(listener)
}

// shutdown lets running requests finish within the limit.
func (e *endpoint) shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), e.patience)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil {
		return
	}
	e.log.Warn("requests were cut off at the end", "what", e.name, "error", err)
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		e.log.Warn("closing the server", "what", e.name, "error", err)
	}
}

// wait notes why the address cannot be had, and logs it when that changes.
func (e *endpoint) wait(err error) {
	if e.set(Waiting, "", err.Error()) {
		e.log.Warn("not serving now; will take over when it is free", "what", e.name, "reason", err)
	}
}

// set changes the state and says whether it was another one; an empty address
// leaves the old one.
func (e *endpoint) set(state State, address, reason string) bool {
	changed := e.replace(state, address, reason)
	if changed {
		e.changed()
	}
	return changed
}

func (e *endpoint) replace(state State, address, reason string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.state
	e.state.State, e.state.Reason = state, reason
	if address != "" {
		e.state.Address = address
	}
	return e.state != old
}

// realPort is the address of a listener on a port, which may have been chosen by
// the kernel; a socket's is known already.
func realPort(listener net.Listener) string {
	if a, ok := listener.Addr().(*net.TCPAddr); ok {
		return a.String()
	}
	return ""
}
