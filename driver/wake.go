// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/restapi"
	"github.com/gpu-docker/gpu-docker/restapi/serve"
)

// factsLimit bounds the questions about engine and host that a start asks first.
const factsLimit = 10 * time.Second

// wake starts what a live plugin runs: servers, image collection, reaper. Called
// once for each configuration, at the first call that needs it.
func (d *Driver) wake(p *parts) {
	imageState := ""
	if p.state.Open() {
		imageState = filepath.Join(d.stateDir, "images.json")
	}
	p.serve(d.refresh.Now)
	if p.engine == nil {
		return
	}
	p.images = p.makeImages(imageState)
	if err := p.images.Start(); err != nil {
		d.logger.Warn("image references of an earlier run are not known", "error", err)
	}
	for _, t := range d.tasks.All() {
		p.images.Adopt(t.state.ImageID, t.cfg.ID)
		if !t.exited() {
			p.ledger.Begin(t.cfg.ID, t.allocations())
		}
	}
	p.loop(d, "reaper", func() { d.reap(p.ctx, p) })
	p.loop(d, "oom", func() { d.watchOOM(p.ctx, p) })
	p.loop(d, "gpu health", func() { d.watchGPUs(p.ctx, p) })
	p.loop(d, "accounting", func() { p.ledger.Run(p.ctx) })
}

// loop runs something in the background until these parts are closed. It says whether
// it begins: after close nothing does, as close waits for what there is.
func (p *parts) loop(d *Driver, name string, run func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.loops.Go(func() {
		defer d.guard(name)
		run()
	})
	return true
}

// serve starts the REST server and the volume socket; changed is called when one
// of them is taken or lost.
func (p *parts) serve(changed func()) {
	cfg := serve.Config{
		APIAddress: p.config.GPU.APIAddress, API: p.api, Volumes: p.volumePlugin, Logger: p.logger, Changed: changed,
	}
	if p.config.GPU.Injection == config.InjectionVolume {
		cfg.VolumeSocketDir = p.config.GPU.VolumeSocketDir
	}
	server, err := serve.Start(p.ctx, cfg)
	if err != nil {
		p.logger.Error("nothing is served", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// serving is the address of the REST server, or why it does not serve; empty
// when it is off.
func (p *parts) serving() string {
	api := p.serverStatus().API
	if api.State == serve.Off || api.State == "" {
		return ""
	}
	return api.String()
}

// engineFacts are what the create request depends on.
func (p *parts) engineFacts(ctx context.Context) container.Engine {
	facts := container.Engine{APIVersion: p.engine.APIVersion()}
	ctx, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	info, err := p.askInfo(ctx)
	if err != nil {
		p.logger.Warn("the engine's runtimes are not known", "error", err)
		return facts
	}
	facts.APIVersion = p.engine.APIVersion() // negotiated by now
	facts.DefaultRuntime = info.defaultRuntime
	facts.Runtimes = info.runtimes
	facts.NVIDIARuntimes = info.nvidiaRuntimes
	return facts
}

// hostFacts are what the create request depends on.
func (p *parts) hostFacts() container.Host {
	return container.Host{CPUs: runtime.NumCPU(), CgroupV2: cgroupV2(), LastCapability: lastCapability()}
}

// lastCapability is the kernel's highest capability; 0 when unknown.
func lastCapability() int {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return n
}

// claimPause notes that somebody named a pause container since the start of
// the plugin.
func (p *parts) claimPause(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claimed[id] = true
}

// dropPause forgets a pause container that is gone or not ours.
func (p *parts) dropPause(id string) {
	p.state.DropPause(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.claimed, id)
}

func (p *parts) pauseClaimed(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claimed[id]
}

// noteNode learns which node this is: only tasks tell.
func (d *Driver) noteNode(cfg *drivers.TaskConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cfg.NodeID != "" {
		d.node = cfg.NodeID
		d.allocRoot = filepath.Dir(cfg.AllocDir)
	}
}

func (d *Driver) nodeID() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.node
}

// Allocations tells the REST server which task holds which GPU.
func (d *Driver) Allocations() []restapi.Allocation {
	var all []restapi.Allocation
	for _, t := range d.tasks.All() {
		if !t.exited() {
			all = append(all, t.allocations()...)
		}
	}
	return all
}
