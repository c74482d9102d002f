// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/image"
	dockerregistry "github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/pkg/jsonmessage"
)

// Media types of an image as Docker pushes it.
const (
	typeManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeConfig   = "application/vnd.docker.container.image.v1+json"
	typeLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// PutHuge puts an image whose only layer claims that many bytes, which exist
// only while somebody fetches them. It returns the manifest's digest.
func (r *Registry) PutHuge(ctx context.Context, img Image, layerBytes int64) (digest string, err error) {
	repo, tag, _ := strings.Cut(img.Ref, ":")
	layer := digestOf([]byte(img.Ref))
	var env []string
	for _, k := range sortedKeys(img.Env) {
		env = append(env, k+"="+img.Env[k])
	}
	config := encode(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Labels": img.Labels, "Env": env, "Cmd": []string{"/bin/sh"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer}},
	})
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": map[string]any{"mediaType": typeConfig, "size": len(config), "digest": digestOf(config)},
		"layers": []any{map[string]any{"mediaType": typeLayer, "size": layerBytes, "digest": layer}},
	})
	r.mu.Lock()
	r.huge[layer] = layerBytes
	r.mu.Unlock()
	if err := r.put(ctx, http.MethodPost, repo+"/blobs/uploads/?digest="+digestOf(config), "application/octet-stream", config); err != nil {
		return "", err
	}
	return digestOf(manifest), r.put(ctx, http.MethodPut, repo+"/manifests/"+tag, typeManifest, manifest)
}

func (r *Registry) put(ctx context.Context, method, path, mediaType string, content []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Host+"/v2/"+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", mediaType)
	r.mu.Lock()
	req.SetBasicAuth(r.user, r.password)
	r.mu.Unlock()
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}

// serveHuge makes up a layer's bytes while they are sent.
func (r *Registry) serveHuge(w http.ResponseWriter, req *http.Request, size int64) {
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("Content-Type", "application/octet-stream")
	if req.Method == http.MethodGet {
		_, _ = io.CopyN(w, rand.NewChaCha8([32]byte{}), size)
	}
}

// noteConfig remembers which blob a manifest that is being put calls its
// configuration.
func (r *Registry) noteConfig(req *http.Request) {
	if req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/manifests/") {
		return
	}
	body, err := io.ReadAll(req.Body)
	req.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	var manifest struct{ Config struct{ Digest string } }
	if json.Unmarshal(body, &manifest) == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.configs[manifest.Config.Digest] = true
	}
}

// failing gives an error, or the end if there is none.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps, slices, texts and numbers come here
	}
	return data
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// Push copies an image of the engine into the registry and returns the name it
// has there, under which the engine does not have it.
func (e *Engine) Push(ctx context.Context, ref string, r *Registry) (string, error) {
	target := r.Host + "/" + ref
	if err := e.Client.ImageTag(ctx, ref, target); err != nil {
		return "", err
	}
	defer e.RemoveImages(ctx, target)
	r.mu.Lock()
	auth, err := dockerregistry.EncodeAuthConfig(dockerregistry.AuthConfig{Username: r.user, Password: r.password})
	r.mu.Unlock()
	if err != nil {
		return "", err
	}
	answer, err := e.Client.ImagePush(ctx, target, image.PushOptions{RegistryAuth: auth})
	if err != nil {
		return "", fmt.Errorf("push %q: %w", target, err)
	}
	defer answer.Close()
	if err := jsonmessage.DisplayJSONMessagesStream(answer, io.Discard, 0, false, nil); err != nil {
		return "", fmt.Errorf("push %q: %w", target, err)
	}
	return target, nil
}
