// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package imagemeta

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/shoenig/test/must"
)

// importImage makes an image with one small file and these changes.
func importImage(t *testing.T, c *client.Client, ref string, changes ...string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 1}))
	_, err := w.Write([]byte("x"))
	must.NoError(t, err)
	must.NoError(t, w.Close())
	body, err := c.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, ref, image.ImportOptions{Changes: changes})
	must.NoError(t, err)
	_, err = io.Copy(io.Discard, body)
	must.NoError(t, err)
	must.NoError(t, body.Close())
	t.Cleanup(func() {
		_, err := c.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true})
		must.NoError(t, err)
	})
}

func newClient(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, c.Close()) })
	return c
}

func TestEngineFromEngine(t *testing.T) {
	c := newClient(t)
	const ref = "imagemeta-test:cuda9"
	importImage(t, c, ref, `LABEL com.nvidia.cuda.version="9.0.176" com.nvidia.volumes.needed="nvidia_driver"`, `ENV NVIDIA_REQUIRE_CUDA="cuda>=9.0 brand=tesla,driver>=375"`)

	img, err := FromEngine(t.Context(), c, ref)
	must.NoError(t, err)
	must.Eq(t, cuda9, img.Labels)
	must.Eq(t, "cuda>=9.0 brand=tesla,driver>=375", img.Env["NVIDIA_REQUIRE_CUDA"])
	must.StrHasPrefix(t, "sha256:", img.ID)

	byID, err := FromEngine(t.Context(), c, img.ID)
	must.NoError(t, err)
	must.Eq(t, cuda9, byID.Labels)

	_, err = FromEngine(t.Context(), c, "imagemeta-test:absent")
	must.ErrorIs(t, err, ErrNotFound)
}

// TestEngineReader measures what the check costs a good task whose image is there.
func TestEngineReader(t *testing.T) {
	c := newClient(t)
	const ref = "imagemeta-test:reader"
	importImage(t, c, ref, `LABEL com.nvidia.cuda.version="9.0.176" com.nvidia.volumes.needed="nvidia_driver"`)
	reader := NewReader(Config{Engine: c})
	fastest := time.Hour
	for range 5 {
		begin := time.Now()
		img, err := reader.Read(t.Context(), Request{Image: ref})
		must.NoError(t, err)
		must.Eq(t, FromTheEngine, img.Origin)
		fastest = min(fastest, time.Since(begin))
	}
	t.Logf("engine answers in %v", fastest)
	must.Less(t, 20*time.Millisecond, fastest)
}

// TestEngineSettings: the engine tells how it reaches registries.
func TestEngineSettings(t *testing.T) {
	c := newClient(t)
	info, err := c.Info(t.Context())
	must.NoError(t, err)
	s := SettingsOf(info)
	must.StrHasPrefix(t, "linux/", s.Platform)
	must.True(t, s.allowsInsecure(t.Context(), "127.0.0.1:5000"))
	must.False(t, s.allowsInsecure(t.Context(), "docker.io"))
}

// TestEngineReader_registry: an image that only a registry has, with a real
// engine's settings.
func TestEngineReader_registry(t *testing.T) {
	r := plainRegistry(t)
	r.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	img, err := NewReader(Config{Engine: newClient(t)}).Read(t.Context(), Request{Image: r.host + "/cuda:9.0"})
	must.NoError(t, err)
	must.Eq(t, FromTheRegistry, img.Origin)
	must.Eq(t, cuda9, img.Labels)
}
