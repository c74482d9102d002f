// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with are the lines that contain all words.
func (l *lines) with(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
next:
	for line := range strings.Lines(l.text.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// logging makes a host write a log.
func logging(log *lines) func(*gpuhost.Config) {
	return func(c *gpuhost.Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info}) }
}

// lacking starts a simulated host like a profile's, without some functions.
func lacking(t *testing.T, profile string, functions ...string) *simhost.Host {
	t.Helper()
	p, err := simhost.LoadProfile(profile, "")
	must.NoError(t, err)
	p.MissingSymbols = append(p.MissingSymbols, functions...)
	text, err := json.Marshal(p)
	must.NoError(t, err)
	path := filepath.Join(t.TempDir(), "profile.json")
	must.NoError(t, os.WriteFile(path, text, 0o600))
	return simulated(t, path)
}

// TestLog_reason: why there is no GPU is told once for each change, and what there is
// when it begins to be (cases DEV-04, DEV-32).
func TestLog_reason(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Unload())
	var log lines
	host := open(t, sim, logging(&log))
	for turn := 1; turn <= 2; turn++ {
		host.Look()
		host.Look()
		must.Len(t, turn, log.with("no usable NVIDIA GPU"))
		must.NoError(t, sim.Load())
		host.Look()
		host.Look()
		must.Len(t, turn, log.with("NVIDIA driver found", "driver=352.39", "libnvidia-ml.so.352.39", "gpus=4"))
		must.NoError(t, sim.Unload())
	}
}

// TestLog_refused: an optional property that fails is told once for each GPU, call and
// code, however often it is asked, and costs nothing else (cases MET-07).
func TestLog_refused(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	var log lines
	host := open(t, sim, logging(&log))
	uuid := host.Look().GPUs[1].UUID
	for _, code := range []int{999, 10} {
		must.NoError(t, sim.Fail("nvmlDeviceGetFanSpeed", code, 1))
		for range 3 {
			reading := host.Sample().GPUs[1]
			must.NoError(t, reading.Err)
			must.Nil(t, reading.FanPercent)
			must.NotNil(t, reading.TemperatureCelsius)
		}
	}
	must.Len(t, 1, log.with("a property of a GPU cannot be read", uuid, "nvmlDeviceGetFanSpeed", "code 999"))
	must.Len(t, 1, log.with("a property of a GPU cannot be read", uuid, "nvmlDeviceGetFanSpeed", "code 10"))
	must.Len(t, 2, log.with("nvmlDeviceGetFanSpeed"))
	must.NoError(t, sim.Fail("nvmlDeviceGetFanSpeed", 3, simhost.AllGPUs))
	host.Sample()
	must.Len(t, 2, log.with("nvmlDeviceGetFanSpeed"), must.Sprint("not supported is an answer"))
}

// TestLog_noBusID: a library that cannot tell bus ids at all costs the bus ids, not the
// GPUs, and the log names what it lacks (cases DEV-01).
func TestLog_noBusID(t *testing.T) {
	t.Parallel()
	var log lines
	inv := open(t, lacking(t, "k80x4-352", "nvmlDeviceGetPciInfo"), logging(&log)).Look()
	must.True(t, unhealthy()(inv))
	must.Len(t, 4, inv.GPUs)
	must.Eq(t, "", inv.GPUs[0].PCIBusID)
	must.Eq(t, "Tesla K80", value(t, inv.GPUs[0].Model))
	must.Len(t, 1, log.with("lacks functions", "352.39", "nvmlDeviceGetPciInfo_v3"))
}

// TestLog_noEvents: a library without events leaves the GPUs to the queries of each
// look (cases DEV-02).
func TestLog_noEvents(t *testing.T) {
	t.Parallel()
	sim := lacking(t, "k80x4-352", "nvmlEventSetCreate", "nvmlEventSetWait")
	var log lines
	host := open(t, sim, logging(&log))
	_, stop := host.Watch()
	defer stop()
	must.True(t, unhealthy()(host.Look()))
	host.Look()
	within(t, 20*time.Second, func() bool { return len(log.with("XID events cannot be waited for", "nvmlEventSetCreate")) == 1 }, func() any { return log.with() })
	must.NoError(t, sim.Lose(1))
	must.True(t, unhealthy(1)(host.Look()))
}

// TestLog_noMIGDevices: MIG mode without devices is told once (cases DEV-10).
func TestLog_noMIGDevices(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	must.NoError(t, sim.Set(splitGPU, map[string]string{"mig": "none"}))
	var log lines
	host := open(t, sim, logging(&log))
	for range 3 {
		gpu := host.Look().GPUs[splitGPU]
		must.True(t, gpu.MIGEnabled)
		must.SliceEmpty(t, gpu.MIGDevices)
	}
	must.Len(t, 1, log.with("is in MIG mode but has no MIG devices"))
}
