// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// call asks the handler as the engine does.
func call(t testing.TB, h http.Handler, path, body string) (int, string) {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Accept", acceptV12)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	got, err := io.ReadAll(w.Result().Body)
	must.NoError(t, err)
	return w.Code, string(got)
}

// TestHandlerBadInput: bad requests get the protocol's error, and nothing on
// disk changes, inside or outside the volumes.
func TestHandlerBadInput(t *testing.T) {
	base := t.TempDir()
	s := newStore(t, Config{Dir: filepath.Join(base, "lib", "volumes")}, smallHost(t, filepath.Join(base, "root")))
	must.NoError(t, os.WriteFile(filepath.Join(base, "lib-file"), nil, 0o644))
	h := s.Handler()
	before := listTree(t, base)
	for _, tc := range []struct {
		title, body string
		status      int
		want        string
	}{
		{"path elements", `{"Name":"nvidia_driver_1/../../../lib-file"}`, 200, "bad volume format: "},
		{"parent directory", `{"Name":"nvidia_driver_.."}`, 200, "bad volume format: "},
		{"control characters", `{"Name":"nvidia_driver_1\u0000\n"}`, 200, `bad volume format: nvidia_driver_1\u0000\n`},
		{"markup", `{"Name":"<b>&"}`, 200, `bad volume format: \u003cb\u003e\u0026`},
		{"broken UTF-8", "{\"Name\":\"nvidia_driver_1\xff\"}", 200, "bad volume format: "},
		{"wrong case", `{"Name":"Nvidia_Driver_1"}`, 200, "unsupported volume: Nvidia_Driver_1"},
		{"longer than a file name", `{"Name":"nvidia_driver_` + strings.Repeat("1", 5000) + `"}`, 200, ""},
		{"one MiB of name", `{"Name":"` + strings.Repeat("a", 1<<20) + `"}`, 500, internalError},
		{"one MiB of other members", `{"Opts":{"x":"` + strings.Repeat("a", 1<<20) + `"},"Name":"nvidia_driver_1"}`, 500, internalError},
		{"one MiB of brackets", strings.Repeat("[", 1<<20), 500, internalError},
		{"cut", `{"Name":"nvidia_dri`, 500, internalError},
		{"array", `["nvidia_driver_1"]`, 500, internalError},
		{"number", `7`, 500, internalError},
		{"empty", ``, 500, internalError},
	} {
		for _, method := range []string{"Create", "Remove", "Mount", "Path", "Unmount", "Get"} {
			t.Run(tc.title+"/"+method, func(t *testing.T) {
				status, got := call(t, h, "/VolumeDriver."+method, tc.body)
				must.Eq(t, tc.status, status)
				must.StrContains(t, got, tc.want)
			})
		}
	}
	must.Eq(t, before, listTree(t, base))
}

func TestHandlerAcceptsLists(t *testing.T) {
	h := newStore(t, Config{}, &fakeHost{}).Handler()
	for header, want := range map[string]int{
		"text/plain, " + acceptV12:  200,
		acceptV11 + "," + acceptV12: 200,
		"application/json, */*":     406,
		acceptV12 + ";q=1":          406,
	} {
		req := httptest.NewRequest(http.MethodPost, "/Plugin.Activate", nil)
		req.Header.Set("Accept", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		must.Eq(t, want, w.Code, must.Sprint(header))
	}
}

// TestCreateTellsRealFailures: what goes wrong is in Err, with status 200 (D9).
func TestCreateTellsRealFailures(t *testing.T) {
	host := &fakeHost{reason: "no kernel module"}
	h := newStore(t, Config{}, host).Handler()
	status, got := call(t, h, "/VolumeDriver.Create", `{"Name":"nvidia_driver_352.39"}`)
	must.Eq(t, 200, status)
	must.Eq(t, `{"Err":"no NVIDIA driver is loaded: no kernel module"}`+"\n", got)
}

// BenchmarkCreateExisting is the engine asking for a volume that is there.
func BenchmarkCreateExisting(b *testing.B) {
	s := newStore(b, Config{}, hostOf(b, b.TempDir(), "ecc2-375.26", ""))
	_, err := s.Ensure(b.Context())
	must.NoError(b, err)
	h := s.Handler()
	for b.Loop() {
		status, got := call(b, h, "/VolumeDriver.Create", `{"Name":"nvidia_driver_375.26"}`)
		if status != 200 || got != "{\"Err\":null}\n" {
			b.Fatalf("create answered %d %q", status, got)
		}
	}
}

// deafHost fails the test when anything asks the driver.
type deafHost struct{ t *testing.T }

func (h deafHost) Inventory(context.Context) *gpuhost.Inventory {
	h.t.Error("the driver was asked for the inventory")
	return &gpuhost.Inventory{}
}

func (h deafHost) DriverFiles(context.Context) (*gpuhost.DriverFiles, error) {
	h.t.Error("the driver was asked for its files")
	return nil, ErrNoDriver
}

// TestAnswersWithoutTheDriver: what the engine asks at its start and about containers
// that are there reads only the disk, so that a driver that hangs costs it nothing
// (cases VOL-12).
func TestAnswersWithoutTheDriver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	_, err := newStore(t, Config{Dir: dir}, smallHost(t, t.TempDir())).Ensure(t.Context())
	must.NoError(t, err)
	h := newStore(t, Config{Dir: dir}, deafHost{t}).Handler()
	for _, method := range []string{"Get", "List", "Path", "Mount", "Unmount", "Capabilities"} {
		status, got := call(t, h, "/VolumeDriver."+method, `{"Name":"`+Name(v550)+`"}`)
		must.Eq(t, 200, status)
		must.StrNotContains(t, got, `"Err":"`)
	}
	status, _ := call(t, h, "/Plugin.Activate", "")
	must.Eq(t, 200, status)
}
