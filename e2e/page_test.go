//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// pageURL is the status page of the driver.
const pageURL = "http://127.0.0.1:3476/"

// TestStatusPage: what a browser without script shows of a host with a task, a
// refused one and a lost GPU, on a desk and on a phone.
// STATUS_PAGE_SCREENSHOTS names a folder for pictures of it.
func TestStatusPage(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	alloc := s.run(job{name: oddName, image: imageCUDA75, script: gpuView, gpus: 1})
	_, err := s.agent.Run(job{name: "newer", image: imageCUDA80, script: "true", gpus: 1}.hcl())
	must.NoError(t, err)
	_, err = s.agent.WaitAlloc(s.ctx, "newer", api.AllocClientStatusFailed)
	must.NoError(t, err)
	lost := (gpuIndex(t, s, alloc) + 1) % 4
	must.NoError(t, s.gpus.Lose(lost))
	t.Cleanup(func() { must.NoError(t, s.gpus.Restore(lost)) })
	must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
		if !strings.Contains(httpGet(t, "/metrics"), "\ngpu_healthy{") || strings.Count(httpGet(t, "/metrics"), "} 0\n") == 0 {
			return fmt.Errorf("GPU %d is still healthy", lost)
		}
		return nil
	}))

	browser, err := harness.StartBrowser(s.ctx, t.Logf, t.TempDir(), false)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, browser.Close()) })
	for name, width := range map[string]int{"desktop": 1280, "phone": 390} {
		t.Run(name, func(t *testing.T) {
			must.NoError(t, browser.Open(pageURL, width))
			s.lookAtPage(t, browser, alloc)
			must.Eq(t, width, evaluate[int](t, browser, "document.documentElement.scrollWidth"), must.Sprint("nothing is wider than the screen"))
			if dir := os.Getenv("STATUS_PAGE_SCREENSHOTS"); dir != "" {
				must.NoError(t, browser.Screenshot(filepath.Join(dir, name+".png")))
			}
		})
	}
	t.Run("it loads itself again", func(t *testing.T) {
		must.NoError(t, s.gpus.Set(gpuIndex(t, s, alloc), map[string]string{"temperature": "91"}))
		must.NoError(t, harness.Eventually(s.ctx, 15*time.Second, func() error {
			if text := evaluate[string](t, browser, "document.body ? document.body.innerText : ''"); !strings.Contains(text, "91 °C") {
				return fmt.Errorf("91 °C is not on the page")
			}
			return nil
		}))
	})
}

// lookAtPage checks what the browser shows.
func (s *site) lookAtPage(t *testing.T, browser *harness.Browser, alloc *api.Allocation) {
	t.Helper()
	text := evaluate[string](t, browser, "document.body.innerText")
	for _, want := range []string{
		"NVIDIA driver 352.39", "CUDA up to 7.5", "4 GPUs", "1 unhealthy", "Tesla K80", "GPU is lost", "Utilisation", "MiB", "°C", " W",
		"default/" + oddName + "/g/t", "allocation " + alloc.ID[:8], "container " + s.inspect(alloc.ID).ID[:12],
		"nvidia_driver_352.39", "of the loaded driver", "default/newer/g/t", "needs CUDA 8.0", "1 since this process started",
	} {
		must.StrContains(t, text, want)
	}
	must.Eq(t, 0, evaluate[int](t, browser, "document.querySelectorAll('img, script').length"), must.Sprint("names stay text"))
	must.Eq(t, 4, evaluate[int](t, browser, "document.querySelectorAll('main > section').length"))
	must.Eq(t, 1, evaluate[int](t, browser, "document.querySelectorAll('main > section.unhealthy').length"))
	must.Eq(t, 12, evaluate[int](t, browser, "document.querySelectorAll('main progress').length"), must.Sprint("four bars a GPU, none for the lost one"))
	must.Eq(t, "grid", evaluate[string](t, browser, "getComputedStyle(document.querySelector('main')).display"), must.Sprint("the stylesheet is loaded"))
}

func evaluate[T any](t *testing.T, browser *harness.Browser, expression string) T {
	t.Helper()
	var value T
	must.NoError(t, browser.Evaluate(expression, &value))
	return value
}
