// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Old clients get what v1 had at /: nothing. What takes HTML gets the page.
func TestPageOnlyForWhoTakesHTML(t *testing.T) {
	cfg := Config{Host: busyHost()}
	must.Eq(t, 404, answer(cfg, http.MethodGet, "/").Code)
	must.Eq(t, 404, answer(cfg, http.MethodGet, "/", "Accept", "application/json").Code)
	for _, accept := range []string{"text/html,application/xhtml+xml", "*/*"} {
		w := answer(cfg, http.MethodGet, "/", "Accept", accept)
		must.Eq(t, 200, w.Code)
		must.Eq(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	}
	must.Eq(t, 404, answer(cfg, http.MethodPost, "/", "Accept", "text/html").Code)
	must.Eq(t, "text/css; charset=utf-8", answer(cfg, http.MethodGet, "/style.css").Header().Get("Content-Type"))
}

func TestPageShows(t *testing.T) {
	tasks := &fakeTasks{
		held:    []Allocation{{UUID: "GPU-b", Share: "1", Namespace: "prod", Job: "train", Group: "g", Task: "t", AllocID: "alloc-1", Container: strings.Repeat("c", 64)}},
		refused: []Refusal{{Time: time.Unix(0, 0), Job: "big", Image: "nvidia/cuda:9.0", Reason: "needs CUDA 9.0"}},
	}
	body := answer(Config{Host: busyHost(), Volumes: tasks, Allocations: tasks, Refusals: tasks}, http.MethodGet, "/", "Accept", "*/*").Body.String()
	for _, want := range []string{
		"535.104.05", "37 %", "1024 / 16384 MiB", "33 °C", "26 / 149 W", "unhealthy: GPU is lost", "share 1: <b>prod/train/g/t</b>", "container cccccccccccc<",
		"MIG 1g.5gb", "nvidia_driver_470.1", "needs CUDA 9.0", `http-equiv="refresh" content="5"`, `name="viewport"`,
	} {
		must.StrContains(t, body, want)
	}
	must.StrNotContains(t, body, "<script")
}

func TestPageWithoutDriver(t *testing.T) {
	h := &fakeHost{}
	h.inv.Reason = "NVML library not found"
	body := answer(Config{Host: h}, http.MethodGet, "/", "Accept", "*/*").Body.String()
	must.StrContains(t, body, "no NVIDIA driver")
	must.StrContains(t, body, "NVML library not found")
	must.StrContains(t, body, "No GPU.")
}

// Names from elsewhere stay text.
func TestPageEscapes(t *testing.T) {
	evil := `"><script>alert(1)</script>`
	h := busyHost()
	h.inv.GPUs[0].Model = &evil
	h.inv.GPUs[1].Unhealthy = evil
	h.inv.Skipped = []string{evil}
	tasks := &fakeTasks{
		held:    []Allocation{{UUID: "GPU-a", Share: evil, Namespace: evil, Job: evil, Group: evil, Task: evil, AllocID: evil, Container: evil}},
		refused: []Refusal{{Namespace: evil, Job: evil, Image: evil, Reason: evil}},
	}
	w := answer(Config{Host: h, Allocations: tasks, Refusals: tasks}, http.MethodGet, "/", "Accept", "text/html")
	must.StrNotContains(t, w.Body.String(), "<script")
	must.StrContains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
}
