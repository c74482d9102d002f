// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// remotePatience is how long another machine may take for one answer.
	remotePatience = 10 * time.Second
	// maxAnswer bounds an answer of its REST API.
	maxAnswer = 1 << 20
)

// remoteArguments are docker options for GPUs of the target, in the order of
// its answer (nvidia-docker-v1 CL-9).
func (w *call) remoteArguments(ctx context.Context, labels map[string]string) ([]string, error) {
	client, hangUp, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	body, err := ask(ctx, client, "/gpu/info/json", nil)
	if err != nil {
		return nil, err
	}
	var info struct{ Version struct{ CUDA string } }
	if err := json.Unmarshal(body, &info); err != nil {
		return nil, fmt.Errorf("gpu/info/json of the remote host: %w", err)
	}
	if err := checkCUDA(labels, info.Version.CUDA); err != nil {
		return nil, err
	}
	body, err = ask(ctx, client, "/docker/cli", url.Values{
		"vol": {strings.Join(volumesNeeded(labels), " ")},
		"dev": {strings.Join(w.gpuIDs(), " ")},
	})
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(body)), nil
}

// connect gives a client whose every connection goes to the target's API.
func (w *call) connect(ctx context.Context) (client *http.Client, hangUp func(), err error) {
	transport := &http.Transport{DialContext: w.cfg.Dial}
	hangUp = transport.CloseIdleConnections
	address := w.target.Address
	if w.target.Scheme == "ssh" {
		tunnel, err := w.dialSSH(ctx)
		if err != nil {
			return nil, nil, err
		}
		address = w.target.ForwardTo
		transport.DialContext = tunnel.DialContext
		hangUp = func() {
			transport.CloseIdleConnections()
			_ = tunnel.Close() // nothing depends on a clean end
		}
	}
	return &http.Client{Transport: toHost{transport, address}, Timeout: w.cfg.Patience}, hangUp, nil
}

// toHost sends requests to one host, whatever their URL says.
type toHost struct {
	next http.RoundTripper
	host string
}

func (t toHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", t.host
	return t.next.RoundTrip(r)
}

// ask gets a path; an answer other than 200 is an error with its text (D14).
func ask(ctx context.Context, client *http.Client, path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: "remote", Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("remote host: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("remote host: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}
