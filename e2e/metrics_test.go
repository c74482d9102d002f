//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/common/expfmt"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// oddName is a job name that a page or a label must not take for anything else.
const oddName = `<img-src=x>'quoted'`

// infoLimit is how long an allocation may take to come into the metrics and to
// leave them (cases MET-01).
const infoLimit = 5 * time.Second

// scrapeConfig is the one of the manual.
func scrapeConfig(t *testing.T) string {
	t.Helper()
	manual, err := os.ReadFile("../docs/metrics.md")
	must.NoError(t, err)
	_, rest, found := strings.Cut(string(manual), "```yaml\nscrape_configs:\n")
	must.True(t, found)
	config, _, found := strings.Cut(rest, "```")
	must.True(t, found)
	return config
}

// holders are the job names of the allocations that a scrape shows.
func holders(t *testing.T) (map[string]map[string]string, error) {
	t.Helper()
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(httpGet(t, "/metrics")))
	if err != nil {
		return nil, harness.Final(err)
	}
	found := map[string]map[string]string{}
	for _, m := range families["gpu_allocation_info"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		found[labels["job"]] = labels
	}
	return found, nil
}

// TestMetricsKnowTheJob: real readings of real tasks, judged by promtool and
// scraped by a real Prometheus with the configuration of the manual.
func TestMetricsKnowTheJob(t *testing.T) {
	mapping := filepath.Join(t.TempDir(), "jobs")
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) { cfg.DriverGPU = fmt.Sprintf("job_mapping_dir = %q", mapping) })
	prometheus, err := harness.StartPrometheus(s.ctx, t.Logf, t.TempDir(), scrapeConfig(t))
	must.NoError(t, err)
	t.Cleanup(prometheus.Close)

	jobs := []string{"one", "two", oddName}
	allocs := map[string]*api.Allocation{}
	for _, name := range jobs {
		allocs[name] = s.run(job{name: name, image: imageCUDA75, script: gpuView, gpus: 1})
		started := allocs[name].TaskStates["t"].StartedAt
		var labels map[string]string
		must.NoError(t, harness.Eventually(s.ctx, infoLimit, func() error {
			found, err := holders(t)
			if labels = found[name]; err == nil && labels == nil {
				err = fmt.Errorf("job %q is not in the metrics, only %v", name, found)
			}
			return err
		}))
		t.Logf("job %q is in the metrics %s after its start", name, time.Since(started).Round(10*time.Millisecond))
		must.Less(t, infoLimit, time.Since(started))
		uuid := reserved(allocs[name])[0]
		must.Eq(t, map[string]string{
			"uuid": uuid, "parent_uuid": uuid, "replica": "", "namespace": "default", "job": name, "group": "g", "task": "t",
			"alloc_id": allocs[name].ID, "container": s.inspect(allocs[name].ID).ID,
		}, labels)
	}

	t.Run("the job mapping tells the same", func(t *testing.T) { // cases MET-05
		want := map[string]string{}
		for _, alloc := range allocs {
			want[strconv.Itoa(gpuIndex(t, s, alloc))] = alloc.ID + "\n"
		}
		must.NoError(t, harness.Eventually(s.ctx, infoLimit, func() error { return mappingIs(mapping, want) }))
	})
	t.Run("a process is booked on its task", func(t *testing.T) { // cases MET-03
		one := allocs["one"]
		uuid := reserved(one)[0]
		ours, foreign := s.inspect(one.ID).State.Pid, os.Getpid()
		must.NoError(t, s.gpus.Set(gpuIndex(t, s, one), map[string]string{"processes": fmt.Sprintf(
			`[{"pid": %d, "name": "ours", "used_bytes": 1000}, {"pid": %d, "name": "foreign", "used_bytes": 200}]`, ours, foreign)}))
		t.Cleanup(func() { must.NoError(t, s.gpus.Set(gpuIndex(t, s, one), map[string]string{"processes": "[]"})) })
		want := []string{
			fmt.Sprintf("gpu_process_memory_bytes{alloc_id=%q,task=\"t\",uuid=%q} 1000\n", one.ID, uuid),
			fmt.Sprintf("gpu_process_memory_bytes{alloc_id=\"\",task=\"\",uuid=%q} 200\n", uuid),
		}
		must.NoError(t, harness.Eventually(s.ctx, infoLimit, func() error {
			text := httpGet(t, "/metrics")
			for _, line := range want {
				if !strings.Contains(text, line) {
					return fmt.Errorf("no %q in the metrics", line)
				}
			}
			return nil
		}))
	})
	t.Run("promtool finds nothing to complain about", func(t *testing.T) {
		must.NoError(t, harness.CheckMetrics(s.ctx, t.Logf, httpGet(t, "/metrics")))
	})
	t.Run("Prometheus joins readings with jobs", func(t *testing.T) {
		must.NoError(t, s.gpus.Set(gpuIndex(t, s, allocs["two"]), map[string]string{"utilization": "73"}))
		joined := `sum by (namespace, job) (gpu_allocation_info * on (parent_uuid) group_left () label_replace(gpu_utilization_ratio, "parent_uuid", "$1", "uuid", "(.*)"))`
		must.NoError(t, harness.Eventually(s.ctx, 20*time.Second, func() error {
			series, err := prometheus.Query(s.ctx, joined)
			if err != nil {
				return err
			}
			seen := map[string]float64{}
			for _, one := range series {
				seen[one.Metric["job"]] = one.Value
			}
			if len(seen) != len(jobs) || seen["two"] != 0.73 {
				return fmt.Errorf("the jobs use %v", seen)
			}
			return nil
		}))
	})
	t.Run("every query of the dashboard is understood", func(t *testing.T) {
		askDashboard(t, s, prometheus)
	})
	t.Run("a stopped task leaves the metrics", func(t *testing.T) {
		for _, name := range jobs {
			must.NoError(t, s.agent.StopJob(s.ctx, name))
			stopped := time.Now()
			must.NoError(t, harness.Eventually(s.ctx, infoLimit, func() error {
				found, err := holders(t)
				if err == nil && found[name] != nil {
					err = fmt.Errorf("job %q is still in the metrics", name)
				}
				return err
			}))
			t.Logf("job %q has left the metrics %s after its stop", name, time.Since(stopped).Round(10*time.Millisecond))
		}
		must.NoError(t, harness.Eventually(s.ctx, infoLimit, func() error { return mappingIs(mapping, map[string]string{}) }))
	})
}

// mappingIs compares the files of a directory with what they should tell, by name.
func mappingIs(dir string, want map[string]string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	told := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		told[e.Name()] = string(text)
	}
	if !maps.Equal(told, want) {
		return fmt.Errorf("the job mapping tells %q, not %q", told, want)
	}
	return nil
}

// gpuIndex is NVML's index of the GPU of an allocation.
func gpuIndex(t *testing.T, s *site, alloc *api.Allocation) int {
	t.Helper()
	var info struct{ Devices []struct{ UUID string } }
	must.NoError(t, json.Unmarshal([]byte(httpGet(t, "/v1.0/gpu/info/json")), &info))
	for i, d := range info.Devices {
		if d.UUID == reserved(alloc)[0] {
			return i
		}
	}
	t.Fatalf("GPU of allocation %s is not in gpu/info", alloc.ID)
	return -1
}

// askDashboard asks Prometheus what each panel asks, for all hosts and GPUs.
func askDashboard(t *testing.T, s *site, prometheus *harness.Prometheus) {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana-dashboard.json")
	must.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.NoError(t, json.Unmarshal(text, &dashboard))
	// What a simulated K80 on this driver does not tell, or has not happened.
	silent := map[string]bool{"XID events": true, "Memory errors": true, "Clocks held down": true, "PCIe": true, "NVLink": true, "Energy": true, "GPU memory by task": true}
	variables := strings.NewReplacer("$instance", ".*", "$uuid", ".*", "$__range", "5m", "$__rate_interval", "1m")
	for _, panel := range dashboard.Panels {
		must.NoError(t, harness.Eventually(s.ctx, 20*time.Second, func() error {
			got := 0
			for _, target := range panel.Targets {
				series, err := prometheus.Query(s.ctx, variables.Replace(target.Expr))
				if err != nil {
					return harness.Final(err)
				}
				got += len(series)
			}
			if len(panel.Targets) > 0 && got == 0 && !silent[panel.Title] {
				return fmt.Errorf("panel %q shows nothing", panel.Title)
			}
			return nil
		}))
	}
}

// TestRecordOfTask: what a task used is told when it ends (cases MET-09).
func TestRecordOfTask(t *testing.T) {
	s := newSite(t, "a100x8-535", nil)
	alloc := s.run(job{name: "used", image: imageCUDA75, script: gpuView, gpus: 2})
	must.NoError(t, s.agent.StopJob(s.ctx, "used"))
	must.NoError(t, harness.Eventually(s.ctx, 20*time.Second, func() error {
		ended, _, err := s.agent.API.Allocations().Info(alloc.ID, nil)
		if err != nil {
			return err
		}
		if events := eventsOf(s, ended); !strings.Contains(events, "Held 2 GPUs for ") {
			return fmt.Errorf("no record among the events: %s", events)
		}
		return nil
	}))
	metrics := httpGet(t, "/metrics")
	must.StrContains(t, metrics, `gpu_docker_gpu_tasks_ended_total{namespace="default"} 1`)
	must.StrContains(t, metrics, `gpu_docker_gpu_seconds_total{namespace="default"} `)
}
