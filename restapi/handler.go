// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"net/http"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Config of the API.
type Config struct {
	Host        Host        // required
	Volumes     Volumes     // nil: no volumes are shown
	Allocations Allocations // nil: nobody holds a GPU
	Refusals    Refusals    // nil: nothing was refused
	Usage       Usage       // nil: nothing was used
	Logger      hclog.Logger
}

// Handler serves the v1.0 endpoints, with and without the prefix /v1.0, the
// metrics, the status page, and nothing else under other paths or methods
// (nvidia-docker-v1 HT-1, HT-2).
func Handler(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Host != nil {
		cfg.Host = newAheadHost(cfg.Host, cfg.Logger)
	}
	a := &api{cfg: cfg, log: cfg.Logger}
	a.metrics = newMetrics(a)
	a.routes = map[string]http.HandlerFunc{
		"/gpu/info":        a.gpuInfo,
		"/gpu/info/json":   a.gpuInfoJSON,
		"/gpu/status":      a.gpuStatus,
		"/gpu/status/json": a.gpuStatusJSON,
		"/docker/cli":      a.dockerCLI,
		"/docker/cli/json": a.dockerCLIJSON,
		"/mesos/cli":       a.mesosCLI,
	}
	return a
}

// version prefixes the paths of v1.0; without it the newest version is meant,
// which is the same.
const version = "/v1.0"

type api struct {
	cfg    Config
	log    hclog.Logger
	routes map[string]http.HandlerFunc // of v1.0, by path without version

	metrics *metrics
}

// ServeHTTP matches paths exactly: no cleaning, no redirects, GET only.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve := a.route(r)
	if serve == nil || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	serve(w, r)
}

// route finds what answers a request, nil for nothing.
func (a *api) route(r *http.Request) http.HandlerFunc {
	switch r.URL.Path {
	case "/metrics":
		return a.serveMetrics
	case "/":
		return a.root(r)
	case stylePath:
		return a.style
	}
	return a.routes[strings.TrimPrefix(r.URL.Path, version)]
}

// root is the status page for whatever says that it takes HTML. v1 had nothing
// at /, and a request that says nothing gets that answer still.
func (a *api) root(r *http.Request) http.HandlerFunc {
	accept := r.Header.Get("Accept")
	if strings.Contains(accept, "text/html") || strings.Contains(accept, "*/*") {
		return a.page
	}
	return nil
}
