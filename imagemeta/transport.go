// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// MaxAnswerBytes bounds each answer of a registry: manifest, index,
// configuration or token. Registries themselves take manifests up to 4 MiB.
const MaxAnswerBytes = 4 << 20

const maxHeaderBytes = 1 << 20

// newHTTP is the transport below the bounds. It serves one read only, because
// its settings belong to one registry.
func newHTTP(s Settings, tlsCfg *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  s.proxy(),
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:        tlsCfg,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// boundedTransport cuts answers that are too large and refuses to speak plain
// HTTP, where credentials could be read by others, unless the engine may too.
type boundedTransport struct {
	inner     http.RoundTripper
	allowHTTP bool
}

func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !t.allowHTTP {
		return nil, fmt.Errorf("registry %q wants plain HTTP, which the engine does not allow; add it to insecure-registries in daemon.json if that is intended", req.URL.Host)
	}
	resp, err := t.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > MaxAnswerBytes {
		_ = resp.Body.Close()
		return nil, tooLarge(req)
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: MaxAnswerBytes, req: req}
	return resp, nil
}

func tooLarge(req *http.Request) error {
	return fmt.Errorf("answer to GET %s has more than %d bytes", req.URL.Path, MaxAnswerBytes)
}

// boundedBody fails where the bound is crossed, so that a cut text is never
// taken for a whole one.
type boundedBody struct {
	io.ReadCloser
	left int
	req  *http.Request
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if n > b.left {
		return b.left, tooLarge(b.req)
	}
	b.left -= n
	return n, err
}
