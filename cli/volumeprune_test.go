// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/shoenig/test/must"
)

// fakeEngine answers for a Docker Engine what prune asks it.
type fakeEngine struct {
	containers []container.Summary
	kept       string // a volume that it does not give up

	mu      sync.Mutex // guards everything below
	listed  []string   // queries of the list of containers
	removed []string   // volumes
}

// serve makes the fake the engine of DOCKER_HOST.
func (e *fakeEngine) serve(t *testing.T) {
	t.Helper()
	calls := http.NewServeMux()
	calls.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	calls.HandleFunc("GET /v1.41/containers/json", func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.listed = append(e.listed, r.URL.RawQuery)
		_ = json.NewEncoder(w).Encode(e.containers)
	})
	calls.HandleFunc("DELETE /v1.41/volumes/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if name == e.kept {
			http.Error(w, `{"message":"volume is in use"}`, http.StatusConflict)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.removed = append(e.removed, name)
		w.WriteHeader(http.StatusNoContent)
	})
	server := httptest.NewServer(calls)
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_HOST", strings.Replace(server.URL, "http", "tcp", 1))
}

// TestVolumePrune: what a container refers to stays, running or not, and so does what
// the engine does not give up (cases VOL-04).
func TestVolumePrune(t *testing.T) {
	root, dir := simulated(t), filepath.Join(t.TempDir(), "volumes")
	must.Eq(t, 0, command(t, "--driver-root", root, "volume", "create", "-d", dir).code)
	for _, version := range []string{"340.29", "343.13", "346.46", "349.12"} {
		must.NoError(t, os.MkdirAll(filepath.Join(dir, "nvidia_driver", version, "lib64"), 0o755))
	}
	e := &fakeEngine{
		containers: []container.Summary{
			{State: "exited", Mounts: []container.MountPoint{{Name: "nvidia_driver_340.29"}}},
			{State: "created", Mounts: []container.MountPoint{{Source: filepath.Join(dir, "nvidia_driver/343.13/lib64")}}},
			{State: "running", Mounts: []container.MountPoint{{Name: "nvidia_driver_352.39"}, {Name: "data"}}},
		},
		kept: "nvidia_driver_349.12",
	}
	e.serve(t)

	got := command(t, "--driver-root", root, "volume", "prune", "-d", dir)
	must.Eq(t, 0, got.code, must.Sprint(got.stderr))
	must.Eq(t, "nvidia_driver_346.46\n", got.stdout)
	must.StrContains(t, got.stderr, `the engine keeps volume "nvidia_driver_349.12"`)
	must.Eq(t, []string{"nvidia_driver_346.46"}, e.removed)
	must.Len(t, 1, e.listed)
	must.StrContains(t, e.listed[0], "all=1")
	left, err := os.ReadDir(filepath.Join(dir, "nvidia_driver"))
	must.NoError(t, err)
	var versions []string
	for _, entry := range left {
		versions = append(versions, entry.Name())
	}
	must.Eq(t, []string{"340.29", "343.13", "349.12", "352.39"}, versions)
}

// TestVolumePruneWithoutEngine: where nobody tells which containers there are, nothing
// goes.
func TestVolumePruneWithoutEngine(t *testing.T) {
	root, dir := simulated(t), t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "nvidia_driver/340.29"), 0o755))
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(dir, "docker.sock"))
	got := command(t, "--driver-root", root, "volume", "prune", "-d", dir)
	must.Eq(t, 1, got.code)
	must.StrContains(t, got.stderr, "start the engine, or use --without-engine")
	must.DirExists(t, filepath.Join(dir, "nvidia_driver/340.29"))
}
