// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"net/http"
	"net/url"
)

func (a *api) gpuInfo(w http.ResponseWriter, r *http.Request) {
	info, err := a.info(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, textType, info.Text())
}

func (a *api) gpuInfoJSON(w http.ResponseWriter, r *http.Request) {
	info, err := a.info(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.render(w, r, jsonType, info.JSON)
}

func (a *api) mesosCLI(w http.ResponseWriter, r *http.Request) {
	info, err := a.info(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.render(w, r, textType, info.Mesos)
}

func (a *api) gpuStatus(w http.ResponseWriter, r *http.Request) {
	status, err := a.status(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, textType, status.Text())
}

func (a *api) gpuStatusJSON(w http.ResponseWriter, r *http.Request) {
	status, err := a.status(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.render(w, r, jsonType, status.JSON)
}

func (a *api) dockerCLI(w http.ResponseWriter, r *http.Request) {
	cli, err := a.docker(r)
	if err != nil {
		http.Error(w, wireText(err), http.StatusBadRequest)
		return
	}
	a.answer(w, r, textType, cli.Text())
}

func (a *api) dockerCLIJSON(w http.ResponseWriter, r *http.Request) {
	cli, err := a.docker(r)
	if err != nil {
		http.Error(w, wireText(err), http.StatusBadRequest)
		return
	}
	a.render(w, r, jsonType, cli.JSON)
}

// render answers with a body that may fail to render.
func (a *api) render(w http.ResponseWriter, r *http.Request, contentType string, body func() ([]byte, error)) {
	b, err := body()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, contentType, b)
}

func (a *api) info(ctx context.Context) (*Info, error) {
	return NewInfo(a.cfg.Host.Inventory(ctx))
}

func (a *api) status(ctx context.Context) (*Status, error) {
	return NewStatus(a.cfg.Host.Inventory(ctx), a.cfg.Host.Readings(ctx))
}

// docker reads the query strictly: a broken escape must not turn a selection
// into "all GPUs" (nvidia-docker-v1 D20). Of a repeated parameter the first counts.
func (a *api) docker(r *http.Request) (*DockerCLI, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	inv := a.cfg.Host.Inventory(r.Context())
	return NewDockerCLI(inv, a.cfg.Host.UVMTools, query.Get("dev"), query.Get("vol"))
}
