// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/shoenig/test/must"
)

// Media types, spelled out.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	ociConfig      = "application/vnd.oci.image.config.v1+json"
)

// testRegistry is a real registry server in memory that notes what it is asked.
type testRegistry struct {
	*httptest.Server
	host string

	mu       sync.Mutex // guards everything below
	requests []string   // "GET /v2/…"
	sent     int        // bytes of bodies
	// before answers a request instead of the registry, if it returns true.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newTestRegistry(t *testing.T, start func(http.Handler) *httptest.Server) *testRegistry {
	t.Helper()
	r := &testRegistry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.Server = start(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
		before := r.before
		r.mu.Unlock()
		counted := &countingWriter{ResponseWriter: w, registry: r}
		if before == nil || !before(counted, req) {
			inner.ServeHTTP(counted, req)
		}
	}))
	t.Cleanup(r.Close)
	_, r.host, _ = strings.Cut(r.URL, "://")
	return r
}

func plainRegistry(t *testing.T) *testRegistry { return newTestRegistry(t, httptest.NewServer) }

type countingWriter struct {
	http.ResponseWriter
	registry *testRegistry
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.registry.mu.Lock()
	w.registry.sent += len(p)
	w.registry.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// forget starts counting anew.
func (r *testRegistry) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.sent = nil, 0
}

func (r *testRegistry) asked() (requests []string, sent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.requests...), r.sent
}

func (r *testRegistry) intercept(f func(w http.ResponseWriter, req *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

// content is a blob or manifest.
type content struct {
	data      []byte
	mediaType string
}

func (c content) digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(c.data)) }

func (c content) descriptor() map[string]any {
	return map[string]any{"mediaType": c.mediaType, "size": len(c.data), "digest": c.digest()}
}

func jsonContent(t *testing.T, mediaType string, v any) content {
	t.Helper()
	data, err := json.Marshal(v)
	must.NoError(t, err)
	return content{data, mediaType}
}

// put sends content to the registry.
func (r *testRegistry) put(t *testing.T, path string, c content) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.URL+path, bytes.NewReader(c.data))
	must.NoError(t, err)
	req.Header.Set("Content-Type", c.mediaType)
	resp, err := r.Client().Do(req)
	must.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	must.Eq(t, http.StatusCreated, resp.StatusCode, must.Sprint(path))
}

// layerBytes is the size of the one layer that each image claims to have: 2 GB,
// which are nowhere.
const layerBytes = 2 << 30

// push puts an image with these labels and variables under a tag, and gives its
// manifest.
func (r *testRegistry) push(t *testing.T, repo, tag, manifestType, configType string, labels map[string]string, env ...string) content {
	t.Helper()
	config := jsonContent(t, configType, map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Labels": labels, "Env": env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + strings.Repeat("1", 64)}},
	})
	resp, err := r.Client().Post(r.URL+"/v2/"+repo+"/blobs/uploads/?digest="+config.digest(), "application/octet-stream", bytes.NewReader(config.data))
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, http.StatusCreated, resp.StatusCode)
	layer := map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": layerBytes, "digest": "sha256:" + strings.Repeat("2", 64)}
	manifest := jsonContent(t, manifestType, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config.descriptor(), "layers": []any{layer}})
	r.put(t, "/v2/"+repo+"/manifests/"+tag, manifest)
	return manifest
}

// pushIndex puts an index over images by platform "os/arch".
func (r *testRegistry) pushIndex(t *testing.T, repo, tag, indexType string, images map[string]content) content {
	t.Helper()
	var children []any
	for platform, c := range images {
		os, arch, _ := strings.Cut(platform, "/")
		d := c.descriptor()
		d["platform"] = map[string]any{"os": os, "architecture": arch}
		children = append(children, d)
		r.put(t, "/v2/"+repo+"/manifests/"+c.digest(), c)
	}
	index := jsonContent(t, indexType, map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": children})
	r.put(t, "/v2/"+repo+"/manifests/"+tag, index)
	return index
}
