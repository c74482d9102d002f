// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"net/http"
	"strconv"
)

// The content types of v1 (nvidia-docker-v1 HT-3).
const (
	textType = "text/plain; charset=utf-8"
	jsonType = "application/json"
)

// internalError is the whole body of every 500; the cause goes to the log.
const internalError = "internal error, check logs for details"

// answer writes a body that was rendered completely.
func (a *api) answer(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil {
		a.log.Debug("client went away before its answer", "path", r.URL.Path, "error", err)
	}
}

// fail answers 500 and keeps the cause for the log.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.log.Error("request failed", "path", r.URL.Path, "error", err)
	http.Error(w, internalError, http.StatusInternalServerError)
}
