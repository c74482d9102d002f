// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// collector makes the metrics of one scrape from the host's shared sample. It
// keeps nothing between scrapes: what is gone from the host is gone from the
// next scrape.
type collector struct{ api *api }

// scrapeAge is how long the text of one scrape serves further ones: a crowd of
// scrapers costs no more than four scrapes a second.
const scrapeAge = 250 * time.Millisecond

// metrics renders the metrics of a host and of this process.
type metrics struct {
	registry *prometheus.Registry

	mu   sync.Mutex // guards everything below
	text []byte
	made time.Time
}

func newMetrics(a *api) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		&collector{a},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// scrape gives the text of the metrics, at most scrapeAge old.
func (m *metrics) scrape() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.text != nil && time.Since(m.made) < scrapeAge {
		return m.text, nil
	}
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering metrics: %w", err)
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.FmtText)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("rendering metric %q: %w", family.GetName(), err)
		}
	}
	m.text, m.made = text.Bytes(), time.Now()
	return m.text, nil
}

// serveMetrics answers a scrape.
func (a *api) serveMetrics(w http.ResponseWriter, r *http.Request) {
	a.render(w, r, string(expfmt.FmtText), a.metrics.scrape)
}

// Describe tells all descriptions, so that the registry can check them once.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range gpuGauges {
		out <- m.desc
	}
	for _, d := range otherMetrics {
		out <- d
	}
}

// Collect makes one scrape.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx := context.Background()
	host := c.api.cfg.Host
	inv, readings := host.Inventory(ctx), host.Readings(ctx)
	s := &scrape{out: out, api: c.api}
	s.driver(inv)
	s.sample(readings)
	byUUID := readingsByUUID(readings)
	for i := range inv.GPUs {
		s.gpu(&inv.GPUs[i], byUUID[inv.GPUs[i].UUID])
	}
	s.xids(host.XIDs())
	allocations := c.api.allocations()
	s.allocations(inv, allocations)
	s.processes(readings, allocations)
	s.volumes(inv)
	_, refused := c.api.refusals()
	s.counter(descRefusals, float64(refused))
	s.usage()
}

// scrape sends the metrics of one scrape.
type scrape struct {
	out chan<- prometheus.Metric
	api *api
}

func (s *scrape) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.send(d, prometheus.GaugeValue, value, labels)
}

func (s *scrape) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.send(d, prometheus.CounterValue, value, labels)
}

func (s *scrape) send(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	m, err := prometheus.NewConstMetric(d, kind, value, validLabels(labels)...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s.out <- m
}

func (s *scrape) driver(inv *gpuhost.Inventory) {
	s.gauge(descGPUs, float64(len(inv.GPUs)))
	if inv.Driver.Version != "" {
		s.gauge(descDriver, 1, inv.Driver.Version, inv.Driver.CUDA.String())
	}
}

func (s *scrape) sample(r *gpuhost.Readings) {
	if !r.Time.IsZero() {
		s.gauge(descSampleAge, time.Since(r.Time).Seconds())
	}
}

func (s *scrape) volumes(inv *gpuhost.Inventory) {
	for _, v := range s.api.listVolumes() {
		s.gauge(descVolume, truth(v.Version == inv.Driver.Version), v.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
