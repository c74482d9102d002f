// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// The manual names every path.
func TestManualNamesEveryPath(t *testing.T) {
	manual, err := os.ReadFile("../docs/rest-api.md")
	must.NoError(t, err)
	for path := range Handler(Config{}).(*api).routes {
		must.StrContains(t, string(manual), "`/v1.0"+path+"`")
	}
}

// knownMetrics are the names of all metrics about GPUs.
func knownMetrics() map[string]bool {
	known := map[string]bool{}
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	for _, m := range gpuGauges {
		known[name.FindStringSubmatch(m.desc.String())[1]] = true
	}
	for _, d := range otherMetrics {
		known[name.FindStringSubmatch(d.String())[1]] = true
	}
	return known
}

// The manual names every metric, and no other.
func TestManualNamesEveryMetric(t *testing.T) {
	manual, err := os.ReadFile("../docs/metrics.md")
	must.NoError(t, err)
	known := knownMetrics()
	for metric := range known {
		must.StrContains(t, string(manual), "`"+metric+"`")
	}
	for _, m := range regexp.MustCompile("`(gpu_[a-z0-9_]*[a-z0-9])`").FindAllStringSubmatch(string(manual), -1) {
		must.True(t, known[m[1]] || m[1] == "gpu_seconds", must.Sprint(m[1]))
	}
}

// The dashboard is made for this program: it asks for metrics that exist, takes
// its data source from the variable, and has no two panels in one place.
func TestGrafanaDashboard(t *testing.T) {
	text, err := os.ReadFile("../deploy/grafana-dashboard.json")
	must.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID         int
			Type       string
			Title      string
			Datasource struct{ UID string }
			GridPos    struct{ X, Y, W, H int }
			Targets    []struct{ Expr string }
		}
	}
	must.NoError(t, json.Unmarshal(text, &dashboard))
	known, used := knownMetrics(), map[string]bool{}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		must.False(t, ids[p.ID], must.Sprintf("id %d is there twice", p.ID))
		ids[p.ID] = true
		must.LessEq(t, 24, p.GridPos.X+p.GridPos.W)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				must.Eq(t, "", cells[cell], must.Sprintf("%q lies on it", p.Title))
				cells[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		must.Eq(t, "${datasource}", p.Datasource.UID, must.Sprint(p.Title))
		must.SliceNotEmpty(t, p.Targets, must.Sprint(p.Title))
		for _, target := range p.Targets {
			for _, metric := range regexp.MustCompile(`\bgpu_\w+`).FindAllString(target.Expr, -1) {
				must.True(t, known[metric], must.Sprintf("%q asks for %q", p.Title, metric))
				used[metric] = true
			}
		}
	}
	for _, metric := range []string{
		"gpu_utilization_ratio", "gpu_memory_used_bytes", "gpu_temperature_celsius", "gpu_power_watts", "gpu_healthy",
		"gpu_allocation_info", "gpu_docker_volume_loaded", "gpu_docker_refusals_total", "gpu_xid_total",
	} {
		must.True(t, used[metric], must.Sprint(metric))
	}
	must.StrNotContains(t, string(text), "localhost")
	must.True(t, strings.HasSuffix(string(text), "}\n"))
}
