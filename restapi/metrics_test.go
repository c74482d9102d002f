// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// fakeTasks is who holds GPUs and who was refused.
type fakeTasks struct {
	held    []Allocation
	refused []Refusal
}

func (f *fakeTasks) Allocations() []Allocation     { return f.held }
func (f *fakeTasks) Refusals() ([]Refusal, uint64) { return f.refused, uint64(len(f.refused)) }
func (f *fakeTasks) List() ([]volume.Volume, error) {
	return []volume.Volume{{Name: "nvidia_driver_535.104.05", Version: "535.104.05"}, {Name: "nvidia_driver_470.1", Version: "470.1"}}, nil
}

// busyHost is a host with one of everything.
func busyHost() *fakeHost {
	h := newFakeHost()
	n := func(v uint64) *uint64 { return &v }
	yes := true
	g := h.addGPU(0, "GPU-a", gpuhost.Reading{
		PowerMilliwatts: n(26516), TemperatureCelsius: n(33), GPUPercent: n(37), MemoryPercent: n(4), EncoderPercent: n(1), DecoderPercent: n(2),
		MemoryUsedBytes: n(1 << 30), BAR1UsedBytes: n(1 << 20), SMClockMHz: n(562), MemoryClockMHz: n(2505), PCIeRxKBps: n(5), PCIeTxKBps: n(6),
		ECCL1Errors: n(1), ECCL2Errors: n(2), ECCDeviceErrors: n(3), MemoryTemperatureCelsius: n(50), FanPercent: n(30), EnergyMillijoules: n(1500),
		ThrottleReasons: n(4), NVLinkRxKBps: n(7), NVLinkTxKBps: n(8), RetiredPagesSingleBit: n(1), RetiredPagesDoubleBit: n(0), RetiredPagesPending: &yes,
		RemappedRowsCorrected: n(1), RemappedRowsUncorrected: n(0), RemappedRowsPending: &yes, RemappedRowsFailed: &yes,
		Processes: []gpuhost.Process{{PID: -1, Name: "x", MemoryUsedBytes: n(1 << 20)}, {PID: -2, Name: "y"}},
		MIG:       []gpuhost.MIGReading{{UUID: "MIG-a", MemoryUsedBytes: n(1 << 20)}},
	})
	model := "Tesla \"K80\"\n\xff"
	g.Model, g.PowerLimitMilliwatts, g.TotalBytes, g.BAR1TotalBytes = &model, n(149000), n(1<<34), n(1<<28)
	g.MIGDevices = []gpuhost.MIGDevice{{UUID: "MIG-a", Profile: "1g.5gb", TotalBytes: n(1 << 32)}}
	h.addGPU(1, "GPU-b", gpuhost.Reading{Err: &gpuhost.Error{Code: gpuhost.CodeGPUIsLost}})
	h.inv.GPUs[1].Unhealthy = "GPU is lost"
	h.xids = map[string]map[uint64]uint64{"GPU-a": {79: 2}}
	h.readings.Time = time.Now()
	return h
}

func scrapeOf(t *testing.T, cfg Config) map[string]*dto.MetricFamily {
	t.Helper()
	w := answer(cfg, http.MethodGet, "/metrics")
	must.Eq(t, 200, w.Code, must.Sprint(w.Body.String()))
	problems, err := promlint.New(bytes.NewReader(w.Body.Bytes())).Lint()
	must.NoError(t, err)
	must.SliceEmpty(t, problems)
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(w.Body)
	must.NoError(t, err)
	return families
}

// value finds the one series of a metric that has the labels.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels map[string]string) float64 {
	t.Helper()
	var found []*dto.Metric
	for _, m := range families[name].GetMetric() {
		got := map[string]string{}
		for _, l := range m.GetLabel() {
			got[l.GetName()] = l.GetValue()
		}
		fits := true
		for k, v := range labels {
			fits = fits && got[k] == v
		}
		if fits {
			found = append(found, m)
		}
	}
	must.Len(t, 1, found, must.Sprintf("%s %v", name, labels))
	if c := found[0].GetCounter(); c != nil {
		return c.GetValue()
	}
	return found[0].GetGauge().GetValue()
}

func TestMetricsOfGPUs(t *testing.T) {
	tasks := &fakeTasks{refused: []Refusal{{}}}
	families := scrapeOf(t, Config{Host: busyHost(), Volumes: tasks, Refusals: tasks})
	a := map[string]string{"uuid": "GPU-a", "index": "0", "model": "Tesla \"K80\"\n\uFFFD"}
	for name, want := range map[string]float64{
		"gpu_power_watts": 26.516, "gpu_power_limit_watts": 149, "gpu_temperature_celsius": 33, "gpu_memory_temperature_celsius": 50,
		"gpu_fan_ratio": 0.3, "gpu_utilization_ratio": 0.37, "gpu_memory_utilization_ratio": 0.04, "gpu_encoder_utilization_ratio": 0.01,
		"gpu_decoder_utilization_ratio": 0.02, "gpu_memory_used_bytes": 1 << 30, "gpu_memory_total_bytes": 1 << 34, "gpu_bar1_used_bytes": 1 << 20,
		"gpu_bar1_total_bytes": 1 << 28, "gpu_sm_clock_hertz": 562e6, "gpu_memory_clock_hertz": 2505e6, "gpu_pcie_receive_bytes_per_second": 5000,
		"gpu_pcie_transmit_bytes_per_second": 6000, "gpu_nvlink_receive_bytes_per_second": 7000, "gpu_nvlink_transmit_bytes_per_second": 8000,
		"gpu_energy_joules_total": 1.5, "gpu_retired_pages_pending": 1, "gpu_row_remap_pending": 1, "gpu_row_remap_failed": 1, "gpu_processes": 2,
		"gpu_healthy": 1, "gpu_info": 1,
	} {
		must.Eq(t, want, value(t, families, name, a), must.Sprint(name))
	}
	must.Eq(t, 3, value(t, families, "gpu_ecc_uncorrected_errors_total", map[string]string{"location": "device_memory"}))
	must.Eq(t, 1, value(t, families, "gpu_retired_pages", map[string]string{"cause": "single_bit_ecc"}))
	must.Eq(t, 1, value(t, families, "gpu_throttled", map[string]string{"reason": "power cap"}))
	must.Eq(t, 2, value(t, families, "gpu_xid_total", map[string]string{"uuid": "GPU-a", "xid": "79"}))
	must.Eq(t, 1<<20, value(t, families, "gpu_mig_memory_used_bytes", map[string]string{"uuid": "MIG-a", "parent_uuid": "GPU-a"}))
	must.Eq(t, 1<<20, value(t, families, "gpu_process_memory_bytes", map[string]string{"uuid": "GPU-a", "alloc_id": ""}))
	must.Eq(t, 0, value(t, families, "gpu_healthy", map[string]string{"uuid": "GPU-b"}))
	must.Eq(t, 1, value(t, families, "gpu_docker_volume_loaded", map[string]string{"name": "nvidia_driver_535.104.05"}))
	must.Eq(t, 0, value(t, families, "gpu_docker_volume_loaded", map[string]string{"name": "nvidia_driver_470.1"}))
	must.Eq(t, 1, value(t, families, "gpu_docker_refusals_total", nil))
	must.Eq(t, 2, value(t, families, "gpu_devices", nil))
	must.Eq(t, 1, value(t, families, "gpu_driver_info", map[string]string{"driver_version": "535.104.05", "cuda_version": "12.2"}))
	must.MapContainsKey(t, families, "gpu_sample_age_seconds")
	must.MapContainsKey(t, families, "process_resident_memory_bytes")
}

// What a card does not tell has no series, never 0.
func TestMetricsAbsent(t *testing.T) {
	families := scrapeOf(t, Config{Host: busyHost()})
	for _, name := range []string{"gpu_power_watts", "gpu_temperature_celsius", "gpu_memory_total_bytes"} {
		must.Len(t, 1, families[name].GetMetric(), must.Sprint(name))
	}
	must.MapNotContainsKey(t, scrapeOf(t, Config{Host: &fakeHost{}}), "gpu_driver_info")
}

// One series a hold; the GPU's own readings stay single (cases MET-01, MET-02).
func TestMetricsOfAllocations(t *testing.T) {
	tasks := &fakeTasks{held: []Allocation{
		{UUID: "GPU-b", Share: "0", Namespace: "default", Job: "train", Group: "g", Task: "t", AllocID: "alloc-1", Container: "c1", Since: time.Now()},
		{UUID: "GPU-b", Share: "1", Namespace: "default", Job: "train", Group: "g", Task: "t", AllocID: "alloc-2", Container: "c2"},
		{UUID: "MIG-a", Namespace: "default", Job: "serve\xff", Group: "g", Task: "t", AllocID: "alloc-3", Container: "c3"},
	}}
	tasks.held = append(tasks.held, tasks.held[2]) // told twice by mistake
	cfg := Config{Host: busyHost(), Allocations: tasks}
	families := scrapeOf(t, cfg)
	must.Len(t, 3, families["gpu_allocation_info"].GetMetric())
	must.Eq(t, 1, value(t, families, "gpu_allocation_info", map[string]string{
		"uuid": "GPU-b", "parent_uuid": "GPU-b", "replica": "1", "namespace": "default", "job": "train", "group": "g", "task": "t", "alloc_id": "alloc-2", "container": "c2",
	}))
	must.Eq(t, 1, value(t, families, "gpu_allocation_info", map[string]string{"uuid": "MIG-a", "parent_uuid": "GPU-a", "job": "serve\uFFFD"}))
	must.Len(t, 2, families["gpu_healthy"].GetMetric())
	tasks.held = nil
	must.MapNotContainsKey(t, scrapeOf(t, cfg), "gpu_allocation_info")
}

func TestContainerOfCgroup(t *testing.T) {
	id := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, line := range map[string]string{
		"version 1, cgroupfs": "12:devices:/docker/" + id + "\n",
		"version 1, systemd":  "12:devices:/system.slice/docker-" + id + ".scope\n",
		"version 2, cgroupfs": "0::/docker/" + id + "\n",
		"version 2, systemd":  "0::/system.slice/docker-" + id + ".scope",
		"below":               "0::/docker/" + id + "/init\n",
		"other parent":        "3:cpu:/nomad/share.slice/" + id + "\n",
	} {
		m := containerID.FindStringSubmatch(line)
		must.SliceNotEmpty(t, m, must.Sprint(name))
		must.Eq(t, id, m[1])
	}
	must.Nil(t, containerID.FindStringSubmatch("0::/user.slice/session-1.scope\n"))
	must.Eq(t, "", containerOf(-1))
}
