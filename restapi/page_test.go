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
		held:    []Allocation{{UUID: "GPU-b", Share: "1", Namespace: "prod", Job: "train", Group: "g", Task: "t", AllocID: "alloc-1", Container: strings.Repeat("c", 64), Since: time.Now().Add(-time.Minute)}},
		refused: []Refusal{{Time: time.Unix(0, 0), Job: "big", Image: "nvidia/cuda:9.0", Reason: "needs CUDA 9.0"}},
	}
	body := answer(Config{Host: busyHost(), Volumes: tasks, Allocations: tasks, Refusals: tasks}, http.MethodGet, "/", "Accept", "*/*").Body.String()
	for _, want := range []string{
		"535.104.05", "37 %", "1024 / 16384 MiB", "33 °C", "26 / 149 W", "<b>2</b> GPUs, <b>1</b> without a task", "1 unhealthy", "GPU is lost",
		"<b>prod/train/g/t</b>", "share 1<", "allocation alloc-1 · container cccccccccccc · for 1m", "clocks held down: power cap", "1 since this process started",
		"MIG 1g.5gb", "1 / 4096 MiB", "<td>-2</td><td>y</td><td>N/A</td>", "nvidia_driver_470.1", "needs CUDA 9.0", `http-equiv="refresh" content="5"`, `name="viewport"`,
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
	h.readings.GPUs[0].Processes[0].Name = evil
	tasks := &fakeTasks{
		held:    []Allocation{{UUID: "GPU-a", Share: evil, Namespace: evil, Job: evil, Group: evil, Task: evil, AllocID: evil, Container: evil}},
		refused: []Refusal{{Namespace: evil, Job: evil, Image: evil, Reason: evil}},
	}
	w := answer(Config{Host: h, Allocations: tasks, Refusals: tasks}, http.MethodGet, "/", "Accept", "text/html")
	must.StrNotContains(t, w.Body.String(), "<script")
	must.StrContains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
}

// A bar draws attention from where the reading should worry.
func TestBarLevels(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	for _, tc := range []struct {
		name    string
		bar     bar
		percent uint64
		level   string
	}{
		{"busy is good", percentBar("", n(100)), 100, ""},
		{"cool", temperatureBar(n(79)), 79, ""},
		{"warm", temperatureBar(n(80)), 80, "warn"},
		{"hot", temperatureBar(n(120)), 100, "high"},
		{"memory", memoryBar(n(89<<20), n(100<<20)), 89, ""},
		{"much memory", memoryBar(n(90<<20), n(100<<20)), 90, "warn"},
		{"all memory", memoryBar(n(100<<20), n(100<<20)), 100, "high"},
		{"at the power limit", shareBar("", n(300), n(200), " W", ofPowerDraw), 100, "warn"},
	} {
		must.Eq(t, tc.percent, tc.bar.Percent, must.Sprint(tc.name))
		must.Eq(t, tc.level, tc.bar.Level, must.Sprint(tc.name))
		must.True(t, tc.bar.Known)
	}
	must.False(t, percentBar("", nil).Known)
	must.False(t, temperatureBar(nil).Known)
	must.Eq(t, "7 W", shareBar("", n(7), nil, " W", ofPowerDraw).Text)
}

// An old sample is told: the driver does not answer any more.
func TestPageTellsOldSample(t *testing.T) {
	h := busyHost()
	for age, stale := range map[time.Duration]bool{time.Second: false, 10 * time.Second: true} {
		h.readings.Time = time.Now().Add(-age)
		body := answer(Config{Host: h}, http.MethodGet, "/", "Accept", "text/html").Body.String()
		must.Eq(t, stale, strings.Contains(body, `class="bad">sampled`))
	}
}
