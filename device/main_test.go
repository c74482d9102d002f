// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"
	"go.uber.org/goleak"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestMain is also the entry of the CUDA probes that the tests start.
func TestMain(m *testing.M) {
	gpuhost.CUDAProbeMain()
	// These tests wait for what happens each second; they hardly compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func encode(t testing.TB, config Config) []byte {
	t.Helper()
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, &config))
	return data
}

// testPlugin makes a plugin on a simulated host, or one without a host. Options
// may change the config, which looks every second.
func testPlugin(t testing.TB, sim *simhost.Host, options ...func(*Config)) *Plugin {
	t.Helper()
	p := NewPlugin(hclog.NewNullLogger(), "0.0.0-test")
	p.open = func(cfg gpuhost.Config) (host, error) {
		cfg.Patience = time.Minute // a busy test machine is no reason for missing facts
		return gpuhost.Open(cfg)
	}
	t.Cleanup(p.Close)
	config := defaultConfig()
	config.FingerprintPeriod = "1s"
	if sim != nil {
		config.DriverRoot = sim.Root()
	}
	for _, option := range options {
		option(&config)
	}
	must.NoError(t, p.SetConfig(&base.Config{PluginConfig: encode(t, config)}))
	return p
}

// simulated starts a simulated host.
func simulated(t testing.TB, profile string) *simhost.Host {
	t.Helper()
	sim, err := simhost.Up(context.Background(), simhost.Options{
		Root: filepath.Join(t.TempDir(), "root"), Profile: profile,
	})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, sim.Down()) })
	return sim
}

// changed starts a simulated host whose profile differs in one text from another.
func changed(t testing.TB, profile, before, after string) *simhost.Host {
	t.Helper()
	text, err := simhost.ProfileText(profile)
	must.NoError(t, err)
	must.StrContains(t, string(text), before)
	path := filepath.Join(t.TempDir(), "profile.json")
	must.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), before, after)), 0o600))
	return simulated(t, path)
}

// record keeps what the plugin logs from now on. Safe for concurrent use.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func recordLog(p *Plugin) *record {
	r := new(record)
	p.log = hclog.New(&hclog.LoggerOptions{Output: r, Level: hclog.Info})
	return r
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

// lines are those that contain a text.
func (r *record) lines(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for line := range strings.Lines(r.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// stream is a fingerprint stream that a test reads.
type stream struct {
	t        testing.TB
	messages <-chan *device.FingerprintResponse
	last     *device.FingerprintResponse
}

// fingerprint opens a stream, which ends with the test.
func fingerprint(t testing.TB, p *Plugin) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	messages, err := p.Fingerprint(ctx)
	must.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		for range messages { // until it is closed
		}
	})
	return &stream{t: t, messages: messages}
}

// until waits for a message that is as wished.
func (s *stream) until(wished func([]*device.DeviceGroup) bool) []*device.DeviceGroup {
	s.t.Helper()
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for {
		select {
		case message := <-s.messages:
			must.NoError(s.t, message.Error)
			s.last = message
			if wished(message.Devices) {
				return message.Devices
			}
		case <-timer.C:
			s.t.Fatalf("no such message; the last: %+v", s.last)
		}
	}
}

// devices collects the devices of all groups by id.
func devices(groups []*device.DeviceGroup) map[string]*device.Device {
	all := make(map[string]*device.Device)
	for _, group := range groups {
		for _, d := range group.Devices {
			all[d.ID] = d
		}
	}
	return all
}

// usable counts the healthy devices.
func usable(groups []*device.DeviceGroup) int {
	count := 0
	for _, d := range devices(groups) {
		if d.Healthy {
			count++
		}
	}
	return count
}

// withUsable wishes for a message with so many healthy devices.
func withUsable(n int) func([]*device.DeviceGroup) bool {
	return func(groups []*device.DeviceGroup) bool { return usable(groups) == n }
}

// within polls a condition until it holds.
func within(t testing.TB, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !holds(); <-tick.C {
		must.True(t, time.Now().Before(end), must.Sprint("not within a minute"))
	}
}
