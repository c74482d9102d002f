// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package image

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/shoenig/test/must"
)

// docker connects to the engine.
func docker(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, c.Close()) })
	return c
}

// serveRegistry serves an empty registry on loopback behind a handler that may
// interfere; it returns host:port.
func serveRegistry(t *testing.T, before func(http.ResponseWriter, *http.Request) (goOn bool)) string {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// testImage makes an image that no engine has yet.
func testImage(t *testing.T, layers, layerBytes int64) v1.Image {
	t.Helper()
	img, err := random.Image(layerBytes, layers)
	must.NoError(t, err)
	config, err := img.ConfigFile()
	must.NoError(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	img, err = mutate.ConfigFile(img, config)
	must.NoError(t, err)
	return img
}

// push puts an image into a registry and returns a reference with the tag "1";
// the engine's copy is removed at the end.
func push(t *testing.T, c *client.Client, host string, img v1.Image, opts ...remote.Option) string {
	t.Helper()
	ref := host + "/image-test/" + strconv.FormatUint(rand.Uint64(), 36) + ":1"
	tag, err := name.NewTag(ref, name.Insecure)
	must.NoError(t, err)
	must.NoError(t, remote.Write(tag, img, opts...))
	removeAtEnd(t, c, ref)
	return ref
}

func removeAtEnd(t *testing.T, c *client.Client, ref string) {
	t.Helper()
	t.Cleanup(func() {
		_, err := c.ImageRemove(context.Background(), ref, imagetypes.RemoveOptions{Force: true})
		must.True(t, err == nil || cerrdefs.IsNotFound(err), must.Sprintf("%v", err))
	})
}

// real makes a Coordinator on the real engine.
func real(t *testing.T, c *client.Client, gc GC) *Coordinator {
	t.Helper()
	co := New(Config{Engine: func() Engine { return c }, GC: gc})
	must.NoError(t, co.Start())
	t.Cleanup(co.Close)
	return co
}

// wantID is the id that the engine gives the image (not with a containerd store).
func wantID(t *testing.T, img v1.Image) string {
	t.Helper()
	id, err := img.ConfigName()
	must.NoError(t, err)
	return id.String()
}

func TestEnginePullPublic(t *testing.T) {
	c := docker(t)
	host := serveRegistry(t, nil)
	img := testImage(t, 3, 1000)
	ref := push(t, c, host, img)
	co := real(t, c, GC{})
	var told events
	id, err := co.Resolve(t.Context(), Request{Ref: ref, Timeout: time.Minute, ActivityTimeout: time.Minute}, Caller{ID: "a", Emit: told.emit})
	must.NoError(t, err)
	must.Eq(t, wantID(t, img), id)
	must.Len(t, 2, told.all())

	digest, err := img.Digest()
	must.NoError(t, err)
	byDigest := strings.TrimSuffix(ref, ":1") + "@" + digest.String()
	for _, ref := range []string{byDigest, ref + "@" + digest.String(), id} {
		again, err := co.Resolve(t.Context(), Request{Ref: ref}, Caller{ID: "a"})
		must.NoError(t, err, must.Sprint(ref))
		must.Eq(t, id, again)
	}
}

// The engine's own idea of a missing tag, a missing host and a refused platform.
func TestEnginePullErrors(t *testing.T) {
	c := docker(t)
	host := serveRegistry(t, nil)
	co := real(t, c, GC{})
	for _, tc := range []struct {
		name, ref string
		kinds     []Kind
	}{
		{"unknown tag", host + "/image-test/none:1", []Kind{KindNotFound}},
		{"no registry there", "127.0.0.1:1/image-test/none:1", []Kind{KindUnreachable}},
		{"no such host", "image-test.invalid/none:1", []Kind{KindDNS, KindUnreachable}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := co.Resolve(t.Context(), Request{Ref: tc.ref, Timeout: time.Minute}, Caller{ID: "a"})
			must.SliceContains(t, tc.kinds, kindOf(t, err), must.Sprint(err))
			t.Log(err)
		})
	}
}

// A registry that answers badly.
func TestEngineBrokenRegistry(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		kind   Kind
	}{
		{"rate limit", http.StatusTooManyRequests, KindRateLimit},
		{"forbidden", http.StatusForbidden, KindAuth},
		{"server error", http.StatusServiceUnavailable, KindUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := docker(t)
			broken := false
			host := serveRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if broken && strings.Contains(r.URL.Path, "/manifests/") {
					w.WriteHeader(tc.status)
					return false
				}
				return true
			})
			ref := push(t, c, host, testImage(t, 1, 1000))
			broken = true
			_, err := real(t, c, GC{}).Resolve(t.Context(), Request{Ref: ref, Timeout: time.Minute}, Caller{ID: "a"})
			must.Eq(t, tc.kind, kindOf(t, err), must.Sprint(err))
			t.Log(err)
		})
	}
}

// A private registry: task auth, configuration file, helper, and none of them.
func TestEnginePrivateRegistry(t *testing.T) {
	c := docker(t)
	host := serveRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, ok := r.BasicAuth(); ok && user == "u" && password == "p" {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	})
	good := Auth{Username: "u", Password: "p"}
	helpers(t, map[string]string{"test": `[ "$server" = ` + host + ` ] && echo '{"Username":"u","Secret":"p"}' || { ` + hasNone + `; }`})
	file := configFile(t, `{"auths":{"http://`+host+`/v1/":{"auth":"`+basic("u:p")+`"}}}`)
	for _, tc := range []struct {
		name   string
		source CredentialSource
		ok     bool
	}{
		{"task", CredentialSource{Task: good}, true},
		{"file", CredentialSource{ConfigFile: file}, true},
		{"helper", CredentialSource{Helper: "test"}, true},
		{"file with helper", CredentialSource{ConfigFile: configFile(t, `{"credHelpers":{"`+host+`":"test"}}`)}, true},
		{"none", CredentialSource{}, false},
		{"wrong", CredentialSource{Task: Auth{Username: "u", Password: "x"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img := testImage(t, 1, 1000)
			ref := push(t, c, host, img, remote.WithAuth(good.authenticator()))
			id, err := real(t, c, GC{}).Resolve(t.Context(), Request{Ref: ref, Timeout: time.Minute, Credentials: tc.source}, Caller{ID: "a"})
			if tc.ok {
				must.NoError(t, err)
				must.Eq(t, wantID(t, img), id)
				return
			}
			must.Eq(t, KindAuth, kindOf(t, err), must.Sprint(err))
		})
	}
}

// A slow registry: the activity limit, the total limit, and a cancelled caller
// (cases DRV-08). What the engine does with its own connection is its matter:
// 20.10 keeps waiting for the registry.
func TestEngineSlowRegistry(t *testing.T) {
	c := docker(t)
	slow := false
	stuck, release := make(chan struct{}, 100), make(chan struct{})
	host := serveRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !slow || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return true
		}
		w.Header().Set("Content-Length", "1000000")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "beginning")
		_ = http.NewResponseController(w).Flush()
		stuck <- struct{}{}
		<-release
		return false
	})
	var refs []string
	for range 3 {
		refs = append(refs, push(t, c, host, testImage(t, 1, 1000)))
	}
	t.Cleanup(func() { close(release) })
	slow = true
	co := real(t, c, GC{})

	_, err := co.Resolve(t.Context(), Request{Ref: refs[0], ActivityTimeout: 500 * time.Millisecond}, Caller{ID: "a"})
	must.Eq(t, KindStalled, kindOf(t, err), must.Sprint(err))
	<-stuck

	_, err = co.Resolve(t.Context(), Request{Ref: refs[1], Timeout: 500 * time.Millisecond}, Caller{ID: "a"})
	must.Eq(t, KindTimeout, kindOf(t, err), must.Sprint(err))

	ctx, cancel := context.WithCancel(t.Context())
	var told time.Time
	_, err = co.Resolve(ctx, Request{Ref: refs[2]}, Caller{ID: "a", Emit: func(string, map[string]string) {
		told = time.Now()
		cancel()
	}})
	must.ErrorIs(t, err, context.Canceled)
	must.Less(t, 2*time.Second, time.Since(told))
}

func TestEngineLoad(t *testing.T) {
	c := docker(t)
	dir := t.TempDir()
	img := testImage(t, 2, 1000)
	ref := "image-test/loaded-" + strconv.FormatUint(rand.Uint64(), 36) + ":1"
	tag, err := name.NewTag(ref)
	must.NoError(t, err)
	must.NoError(t, tarball.WriteToFile(filepath.Join(dir, "image.tar"), tag, img))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "broken.tar"), []byte("this is no archive"), 0o600))
	removeAtEnd(t, c, ref)
	co := real(t, c, GC{})
	_, err = co.Resolve(t.Context(), Request{Ref: ref, Load: "broken.tar", LoadDir: dir}, Caller{ID: "a"})
	must.Eq(t, KindArchive, kindOf(t, err), must.Sprint(err))
	id, err := co.Resolve(t.Context(), Request{Ref: ref, Load: "image.tar", LoadDir: dir}, Caller{ID: "a"})
	must.NoError(t, err)
	must.Eq(t, wantID(t, img), id)
}

// task-driver GC-2 on the engine.
func TestEngineImageGC(t *testing.T) {
	c := docker(t)
	host := serveRegistry(t, nil)
	ref := push(t, c, host, testImage(t, 1, 1000))
	co := real(t, c, GC{Enabled: true})
	id, err := co.Resolve(t.Context(), Request{Ref: ref}, Caller{ID: "a"})
	must.NoError(t, err)
	co.Release(id, "a")
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := c.ImageInspect(t.Context(), id); cerrdefs.IsNotFound(err) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the image was not removed")
		}
	}
}

// Debian's docker-registry, a real one.
func TestEngineRealRegistry(t *testing.T) {
	c := docker(t)
	dir := t.TempDir()
	listener := httptest.NewServer(nil) // finds a free port
	host := strings.TrimPrefix(listener.URL, "http://")
	listener.Close()
	config := fmt.Sprintf("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s/data\nhttp:\n  addr: %s\n", dir, host)
	must.NoError(t, os.WriteFile(dir+"/config.yml", []byte(config), 0o600))
	server := exec.Command("docker-registry", "serve", dir+"/config.yml")
	must.NoError(t, server.Start())
	t.Cleanup(func() {
		must.NoError(t, server.Process.Kill())
		must.Error(t, server.Wait())
	})
	waitFor(t, "http://"+host+"/v2/")
	img := testImage(t, 3, 100000)
	ref := push(t, c, host, img)
	id, err := real(t, c, GC{}).Resolve(t.Context(), Request{Ref: ref, Timeout: time.Minute}, Caller{ID: "a"})
	must.NoError(t, err)
	must.Eq(t, wantID(t, img), id)
}

// waitFor waits until a URL answers.
func waitFor(t *testing.T, url string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := http.Get(url)
		if err == nil {
			must.NoError(t, answer.Body.Close())
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s does not answer: %v", url, err)
		}
	}
}
