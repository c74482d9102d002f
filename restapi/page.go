// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"hash/crc32"
	"html/template"
	"net/http"
	"os"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// stylePath is where the page finds its stylesheet.
const stylePath = "/style.css"

const (
	// pageRefresh is how often the page loads itself again, in seconds.
	pageRefresh = 5
	// staleAfter is the age of a sample from where the page warns: the driver
	// has not answered for several samples.
	staleAfter = 5 * time.Second
)

//go:embed page.html
var pageSource string

//go:embed style.css
var styleSource []byte

// styleLink changes with the stylesheet, so that no browser shows a new page in
// an old dress.
var styleLink = fmt.Sprintf("%s?%08x", stylePath, crc32.ChecksumIEEE(styleSource))

// The template escapes for its context: names of jobs, images, processes and
// cards come from elsewhere.
var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// pageData is what the status page shows.
type pageData struct {
	Refresh         int
	Style           string
	Hostname        string
	Driver          gpuhost.Driver
	Reason          string
	Skipped         []string
	SampleAge       string // empty before the first sample
	Stale           bool   // the sample is old
	GPUs            []pageGPU
	Free, Unhealthy int // GPUs that may be used and nobody holds; that must not be used
	Volumes         []pageVolume
	Refusals        []Refusal
	RefusalsAll     uint64
}

type pageVolume struct {
	Name   string
	Loaded bool
}

// page is the status page, rendered here and readable without script.
func (a *api) page(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, a.pageData(r)); err != nil {
		a.fail(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	a.answer(w, r, "text/html; charset=utf-8", body.Bytes())
}

// style is the page's stylesheet.
func (a *api) style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=3600")
	a.answer(w, r, "text/css; charset=utf-8", styleSource)
}

func (a *api) pageData(r *http.Request) *pageData {
	inv, readings := a.cfg.Host.Inventory(r.Context()), a.cfg.Host.Readings(r.Context())
	d := &pageData{Refresh: pageRefresh, Style: styleLink, Hostname: hostname(), Driver: inv.Driver, Reason: inv.Reason, Skipped: inv.Skipped}
	if !readings.Time.IsZero() {
		age := time.Since(readings.Time)
		d.SampleAge, d.Stale = age.Round(100*time.Millisecond).String(), age > staleAfter
	}
	d.addGPUs(inv, readings, a.allocations())
	for _, v := range a.listVolumes() {
		d.Volumes = append(d.Volumes, pageVolume{Name: v.Name, Loaded: v.Version == inv.Driver.Version})
	}
	d.Refusals, d.RefusalsAll = a.refusals()
	return d
}

func (d *pageData) addGPUs(inv *gpuhost.Inventory, readings *gpuhost.Readings, held []Allocation) {
	byUUID := readingsByUUID(readings)
	for i := range inv.GPUs {
		g := newPageGPU(&inv.GPUs[i], byUUID[inv.GPUs[i].UUID], held)
		d.GPUs = append(d.GPUs, g)
		switch {
		case g.Health != "":
			d.Unhealthy++
		case g.free():
			d.Free++
		}
	}
}

// hostname tells which machine's page this is.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}

// listVolumes gives none when they cannot be listed; the cause goes to the log.
func (a *api) listVolumes() []volume.Volume {
	if a.cfg.Volumes == nil {
		return nil
	}
	volumes, err := a.cfg.Volumes.List()
	if err != nil {
		a.log.Warn("driver volumes cannot be listed", "error", err)
	}
	return volumes
}
