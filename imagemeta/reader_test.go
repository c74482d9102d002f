// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/shoenig/test/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine has images by name.
type fakeEngine struct {
	images map[string]image.InspectResponse
	info   system.Info
	err    error // of every call
	infos  int
}

func (e *fakeEngine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	if e.err != nil {
		return image.InspectResponse{}, e.err
	}
	r, ok := e.images[ref]
	if !ok {
		return r, errdefs.ErrNotFound
	}
	return r, nil
}

func (e *fakeEngine) Info(context.Context) (system.Info, error) {
	e.infos++
	return e.info, e.err
}

func engineImage(labels map[string]string, env ...string) image.InspectResponse {
	return image.InspectResponse{
		ID: "sha256:abc", RepoDigests: []string{"cuda@sha256:def"},
		Config: &dockerspec.DockerOCIImageConfig{ImageConfig: ocispec.ImageConfig{Labels: labels, Env: env}},
	}
}

func TestFromEngine(t *testing.T) {
	e := &fakeEngine{images: map[string]image.InspectResponse{
		"cuda:9.0": engineImage(cuda9, "CUDA_VERSION=9.0", "EMPTY=", "ODD", "TWICE=1", "TWICE=2", "EQ=a=b"),
		"scratch":  {ID: "sha256:0"},
	}}
	img, err := FromEngine(t.Context(), e, "https://cuda:9.0")
	must.NoError(t, err)
	must.Eq(t, cuda9, img.Labels)
	must.MapEq(t, map[string]string{"CUDA_VERSION": "9.0", "EMPTY": "", "ODD": "", "TWICE": "2", "EQ": "a=b"}, img.Env)
	must.Eq(t, "sha256:abc", img.ID)
	must.Eq(t, "sha256:def", img.Digest)

	img, err = FromEngine(t.Context(), e, "scratch")
	must.NoError(t, err)
	must.MapEmpty(t, img.Env)

	_, err = FromEngine(t.Context(), e, "absent")
	must.ErrorIs(t, err, ErrNotFound)
	e.err = errors.New("connection refused")
	_, err = FromEngine(t.Context(), e, "cuda:9.0")
	must.EqError(t, err, `engine cannot inspect image "cuda:9.0": connection refused`)
}

// TestReader_engineFirst: no question to the registry when the engine has the image.
func TestReader_engineFirst(t *testing.T) {
	r := plainRegistry(t)
	r.push(t, "cuda", "9.0", ociManifest, ociConfig, nil, "FROM=registry")
	r.forget()
	ref := r.host + "/cuda:9.0"
	e := &fakeEngine{images: map[string]image.InspectResponse{ref: engineImage(nil, "FROM=engine")}}
	reader := NewReader(Config{Engine: e})

	img, err := reader.Read(t.Context(), Request{Image: ref})
	must.NoError(t, err)
	must.Eq(t, "engine", img.Env["FROM"])
	must.Eq(t, FromTheEngine, img.Origin)
	requests, _ := r.asked()
	must.SliceEmpty(t, requests)
	must.Zero(t, e.infos)

	img, err = reader.Read(t.Context(), Request{Image: ref, SkipEngine: true})
	must.NoError(t, err)
	must.Eq(t, "registry", img.Env["FROM"])

	delete(e.images, ref)
	img, err = reader.Read(t.Context(), Request{Image: ref})
	must.NoError(t, err)
	must.Eq(t, "registry", img.Env["FROM"])

	e.err = errors.New("engine is down")
	img, err = reader.Read(t.Context(), Request{Image: ref})
	must.NoError(t, err)
	must.Eq(t, "registry", img.Env["FROM"])
	_, err = reader.Read(t.Context(), Request{Image: ref + "-none"})
	must.ErrorIs(t, err, ErrUnavailable)
	must.StrContains(t, err.Error(), "engine is down")
}

// TestReader_asTheEngineIsConfigured: the engine's registry settings count.
func TestReader_asTheEngineIsConfigured(t *testing.T) {
	r := plainRegistry(t)
	r.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	e := &fakeEngine{info: system.Info{RegistryConfig: &registry.ServiceConfig{IndexConfigs: map[string]*registry.IndexInfo{r.host: {Secure: true}}}}}
	reader := NewReader(Config{Engine: e})
	_, err := reader.Read(t.Context(), Request{Image: r.host + "/cuda:9.0"})
	must.ErrorIs(t, err, ErrUnavailable)
	e.info.RegistryConfig.IndexConfigs[r.host].Secure = false
	_, err = reader.Read(t.Context(), Request{Image: r.host + "/cuda:9.0"})
	must.NoError(t, err)
}

// TestReader_remembers: one digest is read once, whatever its name.
func TestReader_remembers(t *testing.T) {
	r := plainRegistry(t)
	one := r.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	index := r.pushIndex(t, "cuda", "index", ociIndex, map[string]content{"linux/amd64": one})
	reader := NewReader(Config{})
	read := func(ref string) (*Image, []string) {
		t.Helper()
		r.forget()
		img, err := reader.Read(t.Context(), Request{Image: r.host + "/" + ref, Platform: "linux/amd64"})
		must.NoError(t, err)
		requests, _ := r.asked()
		return img, requests
	}
	first, requests := read("cuda:index")
	must.Len(t, 4, requests) // ping, index, manifest, configuration
	first.Labels["com.nvidia.cuda.version"] = "changed by a caller"

	second, requests := read("cuda:index")
	must.Eq(t, cuda9, second.Labels)
	must.Eq(t, []string{"GET /v2/", "GET /v2/cuda/manifests/index"}, requests)
	_, requests = read("cuda@" + index.digest())
	must.SliceEmpty(t, requests)

	_, err := reader.Read(t.Context(), Request{Image: r.host + "/cuda@" + index.digest(), Platform: "linux/arm64"})
	must.ErrorIs(t, err, ErrUnavailable) // another platform is another image
}

func TestReader_time(t *testing.T) {
	r := plainRegistry(t)
	r.intercept(func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true })
	reader := NewReader(Config{Timeout: 50 * time.Millisecond})
	_, err := reader.Read(t.Context(), Request{Image: r.host + "/cuda:9.0"})
	must.ErrorIs(t, err, ErrUnavailable)
	must.ErrorIs(t, err, context.DeadlineExceeded)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = reader.Read(ctx, Request{Image: r.host + "/cuda:9.0"})
	must.ErrorIs(t, err, context.Canceled)
	must.False(t, errors.Is(err, ErrUnavailable))
}

func TestReader_imageID(t *testing.T) {
	id := "sha256:" + strings.Repeat("a", 64)
	e := &fakeEngine{images: map[string]image.InspectResponse{id: engineImage(cuda9)}}
	img, err := NewReader(Config{Engine: e}).Read(t.Context(), Request{Image: id})
	must.NoError(t, err)
	must.Eq(t, cuda9, img.Labels)
	_, err = NewReader(Config{}).Read(t.Context(), Request{Image: id})
	must.ErrorIs(t, err, ErrUnavailable)
}

func TestCache_bounds(t *testing.T) {
	c := newCache()
	small := &Image{}
	for i := range maxCached + 10 {
		c.put(strings.Repeat("x", i), "linux/amd64", small)
	}
	must.MapLen(t, maxCached, c.images)
	must.Nil(t, c.get("", "linux/amd64")) // the oldest made room
	big := &Image{}
	big.Env = map[string]string{"BIG": strings.Repeat("x", maxCachedBytes)}
	c.put("big", "linux/amd64", big)
	must.Nil(t, c.get("big", "linux/amd64"))
}

// TestReader_concurrent: run with -race.
func TestReader_concurrent(t *testing.T) {
	r := plainRegistry(t)
	r.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	reader := NewReader(Config{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			img, err := reader.Read(t.Context(), Request{Image: r.host + "/cuda:9.0"})
			if err != nil || img.Labels["com.nvidia.cuda.version"] != "9.0.176" {
				t.Errorf("%v, %v", img, err)
			}
		})
	}
	all.Wait()
}
