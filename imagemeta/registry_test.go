// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/shoenig/test/must"
)

var cuda9 = map[string]string{"com.nvidia.cuda.version": "9.0.176", "com.nvidia.volumes.needed": "nvidia_driver"}

func TestFromRegistry_formats(t *testing.T) {
	r := plainRegistry(t)
	docker := r.push(t, "cuda", "docker", dockerManifest, dockerConfig, cuda9, "CUDA_VERSION=9.0.176", "NVIDIA_REQUIRE_CUDA=cuda>=9.0")
	oci := r.push(t, "cuda", "oci", ociManifest, ociConfig, cuda9, "CUDA_VERSION=9.0.176", "NVIDIA_REQUIRE_CUDA=cuda>=9.0")
	r.push(t, "cuda", "bare", ociManifest, ociConfig, nil)
	arm := r.push(t, "cuda", "arm", ociManifest, ociConfig, nil, "CUDA_VERSION=12.0")
	list := r.pushIndex(t, "cuda", "list", dockerList, map[string]content{"linux/amd64": docker, "linux/arm64": arm})
	r.pushIndex(t, "cuda", "index", ociIndex, map[string]content{"linux/amd64": oci, "linux/arm64": arm, "unknown/unknown": arm})

	for _, tc := range []struct{ name, ref, platform, wantCUDA, wantDigest string }{
		{"Docker v2 by tag", "cuda:docker", "linux/amd64", "9.0.176", docker.digest()},
		{"OCI by tag", "cuda:oci", "linux/amd64", "9.0.176", oci.digest()},
		{"by digest", "cuda@" + oci.digest(), "linux/amd64", "9.0.176", oci.digest()},
		{"digest beats tag", "cuda:nothing@" + oci.digest(), "linux/amd64", "9.0.176", oci.digest()},
		{"Docker list", "cuda:list", "linux/amd64", "9.0.176", list.digest()},
		{"Docker list by digest", "cuda@" + list.digest(), "linux/amd64", "9.0.176", list.digest()},
		{"OCI index, other platform", "cuda:index", "linux/arm64", "12.0", ""},
		{"no metadata", "cuda:bare", "linux/amd64", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img, err := FromRegistry(t.Context(), r.host+"/"+tc.ref, RegistryOptions{Platform: tc.platform})
			must.NoError(t, err)
			must.Eq(t, tc.wantCUDA, img.Env["CUDA_VERSION"])
			must.Eq(t, FromTheRegistry, img.Origin)
			must.StrHasPrefix(t, "sha256:", img.ID)
			if tc.wantDigest != "" {
				must.Eq(t, tc.wantDigest, img.Digest)
			}
		})
	}
	img, err := FromRegistry(t.Context(), "https://"+r.host+"/cuda:docker", RegistryOptions{})
	must.NoError(t, err)
	must.Eq(t, cuda9, img.Labels)
	requests, _ := r.asked()
	must.SliceNotContains(t, requests, "GET /v2/cuda/blobs/sha256:"+strings.Repeat("2", 64))
}

// TestFromRegistry_cost is the bound of bytes and time for an image of 2 GB.
func TestFromRegistry_cost(t *testing.T) {
	r := plainRegistry(t)
	image := r.push(t, "big", "one", ociManifest, ociConfig, cuda9, "NVIDIA_REQUIRE_CUDA="+strings.Repeat("brand=tesla,driver>=384,driver<385 ", 200))
	r.pushIndex(t, "big", "all", ociIndex, map[string]content{"linux/amd64": image})
	r.forget()

	begin := time.Now()
	_, err := FromRegistry(t.Context(), r.host+"/big:all", RegistryOptions{Platform: "linux/amd64"})
	took := time.Since(begin)
	must.NoError(t, err)
	requests, sent := r.asked()
	t.Logf("%d bytes in %d requests, %v: %q", sent, len(requests), took, requests)
	must.Less(t, 64<<10, sent)
	must.LessEq(t, 5, len(requests)) // ping (TLS is tried first, without a request), index, manifest, configuration
	must.Less(t, 300*time.Millisecond, took)
	for _, req := range requests {
		must.False(t, strings.Contains(req, "/blobs/sha256:222"), must.Sprint(req))
	}
}

func TestFromRegistry_unavailable(t *testing.T) {
	r := plainRegistry(t)
	image := r.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	r.pushIndex(t, "cuda", "index", ociIndex, map[string]content{"linux/amd64": image})
	config := "/v2/cuda/blobs/"
	manifest := "/v2/cuda/manifests/9.0"

	for _, tc := range []struct {
		name, ref, want string
		answer          func(w http.ResponseWriter, req *http.Request) bool
	}{
		{name: "unknown tag", ref: "cuda:8.0", want: "MANIFEST_UNKNOWN"},
		{name: "unknown repository", ref: "nothing:8.0", want: "NAME_UNKNOWN"},
		{name: "platform missing", ref: "cuda:index", want: "no child with platform linux/s390x"},
		{name: "not a reference", ref: "CUDA:9.0:1", want: "not a reference to a registry"},
		{
			name: "500", ref: "cuda:9.0", want: "500",
			answer: func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true },
		},
		{
			name: "500 for the configuration only", ref: "cuda:9.0", want: "500",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				if strings.HasPrefix(req.URL.Path, config) {
					w.WriteHeader(500)
					return true
				}
				return false
			},
		},
		{
			name: "manifest without end", ref: "cuda:9.0", want: "more than 4194304 bytes",
			answer: func(w http.ResponseWriter, req *http.Request) bool { return req.URL.Path == manifest && pour(w, req) },
		},
		{
			name: "manifest that claims to be huge", ref: "cuda:9.0", want: "more than 4194304 bytes",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path != manifest {
					return false
				}
				w.Header().Set("Content-Length", "99999999999")
				_, _ = w.Write([]byte("{"))
				return true
			},
		},
		{
			name: "configuration without end", ref: "cuda:9.0", want: "configuration",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				return strings.HasPrefix(req.URL.Path, config) && pour(w, req)
			},
		},
		{
			name: "configuration shorter than told", ref: "cuda:9.0", want: "configuration",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				if !strings.HasPrefix(req.URL.Path, config) {
					return false
				}
				_, _ = w.Write([]byte("{}"))
				return true
			},
		},
		{
			name: "configuration of another size", ref: "cuda:9.0", want: "configuration",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				if !strings.HasPrefix(req.URL.Path, config) {
					return false
				}
				w.Header().Set("Content-Length", "7")
				_, _ = w.Write([]byte("1234567"))
				return true
			},
		},
		{
			name: "manifest is no JSON", ref: "cuda:9.0", want: "invalid character",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path != manifest {
					return false
				}
				w.Header().Set("Content-Type", ociManifest)
				_, _ = w.Write([]byte("<html>"))
				return true
			},
		},
		{
			name: "configuration claims 10 GB and never ends", ref: "cuda:9.0", want: "configuration",
			answer: func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path == manifest {
					w.Header().Set("Content-Type", ociManifest)
					_, _ = fmt.Fprintf(w, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"size":10000000000,"digest":"sha256:%s"},"layers":[]}`, ociManifest, ociConfig, strings.Repeat("3", 64))
					return true
				}
				return strings.HasPrefix(req.URL.Path, config) && pour(w, req)
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.intercept(tc.answer)
			r.forget()
			_, err := FromRegistry(t.Context(), r.host+"/"+tc.ref, RegistryOptions{Platform: platformFor(tc.name)})
			must.ErrorIs(t, err, ErrUnavailable)
			must.StrContains(t, err.Error(), tc.want)
			must.StrHasPrefix(t, "cannot read the metadata of image ", err.Error())
			_, sent := r.asked()
			must.Less(t, 16<<20, sent)
		})
	}
}

func platformFor(name string) string {
	if name == "platform missing" {
		return "linux/s390x"
	}
	return "linux/amd64"
}

// pour writes until nobody listens.
func pour(w http.ResponseWriter, req *http.Request) bool {
	chunk := []byte(strings.Repeat(" ", 64<<10))
	for req.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			break
		}
	}
	return true
}

// TestFromRegistry_hangs: the caller's time is the bound.
func TestFromRegistry_hangs(t *testing.T) {
	r := plainRegistry(t)
	r.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	for _, path := range []string{"/v2/", "/v2/cuda/manifests/9.0", "/v2/cuda/blobs/"} {
		t.Run(path, func(t *testing.T) {
			r.intercept(func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path != path && (path == "/v2/" || !strings.HasPrefix(req.URL.Path, path)) {
					return false
				}
				w.(*countingWriter).ResponseWriter.(http.Flusher).Flush() // the head of an answer, and then nothing
				<-req.Context().Done()
				return true
			})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			begin := time.Now()
			_, err := FromRegistry(ctx, r.host+"/cuda:9.0", RegistryOptions{})
			must.ErrorIs(t, err, ErrUnavailable)
			must.ErrorIs(t, err, context.DeadlineExceeded)
			must.Less(t, 3*time.Second, time.Since(begin))
		})
	}
}

// keys is a keychain of one registry.
type keys struct {
	registry string
	auth     authn.AuthConfig
	asked    *[]string
}

func (k keys) Resolve(target authn.Resource) (authn.Authenticator, error) {
	if k.asked != nil {
		*k.asked = append(*k.asked, target.RegistryStr())
	}
	if target.RegistryStr() != k.registry {
		return nil, errors.New("no credentials for " + target.RegistryStr())
	}
	return authn.FromConfig(k.auth), nil
}

func TestFromRegistry_credentials(t *testing.T) {
	r := plainRegistry(t)
	r.push(t, "private/cuda", "9.0", ociManifest, ociConfig, cuda9)
	login := authn.AuthConfig{Username: "ann", Password: "secret"}

	t.Run("basic", func(t *testing.T) {
		r.intercept(func(w http.ResponseWriter, req *http.Request) bool {
			if user, password, _ := req.BasicAuth(); user == "ann" && password == "secret" {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		_, err := FromRegistry(t.Context(), r.host+"/private/cuda:9.0", RegistryOptions{})
		must.ErrorIs(t, err, ErrUnavailable)
		img, err := FromRegistry(t.Context(), r.host+"/private/cuda:9.0", RegistryOptions{Keychain: keys{registry: r.host, auth: login}})
		must.NoError(t, err)
		must.Eq(t, cuda9, img.Labels)
	})
	t.Run("token server", func(t *testing.T) {
		r.intercept(func(w http.ResponseWriter, req *http.Request) bool {
			user, password, _ := req.BasicAuth()
			switch {
			case req.URL.Path == "/token" && user == "ann" && password == "secret" && req.URL.Query().Get("scope") == "repository:private/cuda:pull":
				_, _ = w.Write([]byte(`{"token":"opened"}`))
			case req.URL.Path == "/token":
				w.WriteHeader(http.StatusUnauthorized)
			case req.Header.Get("Authorization") == "Bearer opened":
				return false
			default:
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="s"`, r.host))
				w.WriteHeader(http.StatusUnauthorized)
			}
			return true
		})
		_, err := FromRegistry(t.Context(), r.host+"/private/cuda:9.0", RegistryOptions{Keychain: keys{registry: r.host, auth: login}})
		must.NoError(t, err)
		_, err = FromRegistry(t.Context(), r.host+"/private/cuda:9.0", RegistryOptions{Keychain: keys{registry: r.host, auth: authn.AuthConfig{RegistryToken: "opened"}}})
		must.NoError(t, err)
		_, err = FromRegistry(t.Context(), r.host+"/private/cuda:9.0", RegistryOptions{})
		must.ErrorIs(t, err, ErrUnavailable)
	})
	t.Run("the search for credentials fails", func(t *testing.T) {
		_, err := FromRegistry(t.Context(), r.host+"/private/cuda:9.0", RegistryOptions{Keychain: keys{registry: "other"}})
		must.ErrorIs(t, err, ErrUnavailable)
		must.StrContains(t, err.Error(), "no credentials for "+r.host)
	})
}

// TestFromRegistry_transport: TLS and plain HTTP as the engine is configured.
func TestFromRegistry_transport(t *testing.T) {
	tls := newTestRegistry(t, httptest.NewTLSServer)
	tls.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	plain := plainRegistry(t)
	plain.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	certs := t.TempDir()
	writeAuthority(t, certs, tls)
	secure := func(host string) Settings { return Settings{Secure: map[string]bool{host: true}} }

	for _, tc := range []struct {
		name, host, want string
		opts             RegistryOptions
	}{
		{"own authority", tls.host, "", RegistryOptions{Settings: secure(tls.host), CertsDir: certs}},
		{"authority is not known", tls.host, "certificate", RegistryOptions{Settings: secure(tls.host), CertsDir: t.TempDir()}},
		{"insecure, any certificate", tls.host, "", RegistryOptions{Settings: Settings{Secure: map[string]bool{tls.host: false}}, CertsDir: t.TempDir()}},
		{"loopback is insecure by default", plain.host, "", RegistryOptions{}},
		{"plain HTTP is not allowed", plain.host, "add it to insecure-registries", RegistryOptions{Settings: secure(plain.host)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img, err := FromRegistry(t.Context(), tc.host+"/cuda:9.0", tc.opts)
			if tc.want == "" {
				must.NoError(t, err)
				must.Eq(t, cuda9, img.Labels)
				return
			}
			must.ErrorIs(t, err, ErrUnavailable)
			must.StrContains(t, err.Error(), tc.want)
		})
	}
}

// TestFromRegistry_plainHTTPGetsNoPassword: a private address is no reason to
// show credentials to whoever listens.
func TestFromRegistry_plainHTTPGetsNoPassword(t *testing.T) {
	plain := plainRegistry(t)
	plain.push(t, "cuda", "9.0", ociManifest, ociConfig, cuda9)
	plain.forget()
	_, err := FromRegistry(t.Context(), plain.host+"/cuda:9.0", RegistryOptions{
		Settings: Settings{Secure: map[string]bool{plain.host: true}},
		Keychain: keys{registry: plain.host, auth: authn.AuthConfig{Username: "ann", Password: "secret"}},
	})
	must.ErrorIs(t, err, ErrUnavailable)
	requests, _ := plain.asked()
	must.SliceEmpty(t, requests)
}

func TestFromRegistry_mirrors(t *testing.T) {
	broken, mirror := plainRegistry(t), plainRegistry(t)
	mirror.push(t, "library/busybox", "latest", ociManifest, ociConfig, cuda9)
	broken.intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true })
	var asked []string
	img, err := FromRegistry(t.Context(), "busybox", RegistryOptions{
		Settings: Settings{Mirrors: []string{broken.URL, "::", mirror.URL + "/"}},
		Keychain: keys{asked: &asked},
	})
	must.NoError(t, err)
	must.Eq(t, cuda9, img.Labels)
	must.SliceEmpty(t, asked) // Docker Hub's credentials are not for mirrors
}
