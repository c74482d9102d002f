// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/gpu-docker/gpu-docker/volume"
)

// The limits of the REST API (nvidia-docker-v1 DM-5): a slow client loses its
// connection, and no number of clients can use up the process.
const (
	connectionTimeout = 5 * time.Second
	idleTimeout       = 30 * time.Second
	shutdownTimeout   = 5 * time.Second
	maxConnections    = 2048
	maxHeaderBytes    = 32 << 10
)

// volumeTimeout bounds one answer of the volume plugin; building a volume by
// copying may take long, and the engine gives up first.
const volumeTimeout = 5 * time.Minute

// leastProcessors is how many threads may run Go code at least while a server
// runs. A look at the GPUs waits for NVML with a thread each, and Go takes such a
// thread's turn back only after up to 10 ms: with fewer turns than GPUs an answer
// would wait that long although no processor is busy.
const leastProcessors = 16

// Server serves until it is stopped. Safe for concurrent use.
type Server struct {
	api, volumes *endpoint
	stop         context.CancelFunc
	done         sync.WaitGroup
}

// Start serves in the background until ctx ends or Stop is called. It fails
// only for a configuration that can never work.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if runtime.GOMAXPROCS(0) < leastProcessors {
		runtime.GOMAXPROCS(leastProcessors)
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Server{stop: stop, api: apiEndpoint(&cfg), volumes: volumeEndpoint(&cfg)}
	for _, e := range []*endpoint{s.api, s.volumes} {
		if e.listen == nil {
			continue
		}
		first := make(chan struct{})
		s.done.Go(func() { e.run(ctx, first) })
		<-first
	}
	return s, nil
}

// Status tells what is served now.
func (s *Server) Status() Status {
	return Status{API: s.api.status(), Volumes: s.volumes.status()}
}

// Stop ends both servers; requests that run get 5 s. It returns when nothing
// of the server is left.
func (s *Server) Stop() {
	s.stop()
	s.done.Wait()
}

// Wait returns when the server has ended because its context did, or Stop.
func (s *Server) Wait() { s.done.Wait() }

func apiEndpoint(cfg *Config) *endpoint {
	e := newEndpoint(cfg, "REST API", cfg.APIAddress)
	if cfg.APIAddress == "" {
		return e
	}
	if !loopback(cfg.APIAddress) {
		e.log.Warn("the REST API can be reached from other machines and knows no authentication; use a loopback address unless the network is closed", "address", cfg.APIAddress)
	}
	e.listen = func() (net.Listener, error) {
		listener, err := listenTCP(cfg.APIAddress)
		if err != nil {
			return nil, err
		}
		return limitConnections(listener, maxConnections), nil
	}
	e.server = func() *http.Server {
		return &http.Server{
			Handler:        cfg.API,
			ReadTimeout:    connectionTimeout,
			WriteTimeout:   connectionTimeout,
			IdleTimeout:    idleTimeout,
			MaxHeaderBytes: maxHeaderBytes,
		}
	}
	return e
}

func volumeEndpoint(cfg *Config) *endpoint {
	if cfg.VolumeSocketDir == "" {
		return newEndpoint(cfg, "volume plugin", "")
	}
	e := newEndpoint(cfg, "volume plugin", volume.SocketPath(cfg.VolumeSocketDir))
	e.listen = func() (net.Listener, error) { return listenSocket(cfg.VolumeSocketDir) }
	e.server = func() *http.Server {
		return &http.Server{
			Handler:           cfg.Volumes,
			ReadHeaderTimeout: connectionTimeout,
			WriteTimeout:      volumeTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
		}
	}
	return e
}
