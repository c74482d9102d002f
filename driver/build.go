// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"path/filepath"

	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/image"
	"github.com/gpu-docker/gpu-docker/driver/logship"
	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/imagemeta"
	"github.com/gpu-docker/gpu-docker/restapi"
	"github.com/gpu-docker/gpu-docker/restapi/accounting"
	"github.com/gpu-docker/gpu-docker/volume"
)

// realParts makes the parts for this machine. It calls neither the engine nor
// NVML and creates no file. It fails only for options that cannot be meant.
func (d *Driver) realParts(cfg *config.Plugin) (*parts, error) {
	p := d.emptyParts(cfg)
	if err := d.addHost(p); err != nil {
		return nil, err
	}
	docker, err := newDockerEngine(endpointOf(cfg))
	if err != nil {
		// Certificates may come later, and other drivers must live (task-driver FP-3).
		p.engineErr = err
		return p, nil
	}
	p.engine = docker
	p.makeImages = func(stateFile string) images {
		return image.New(image.Config{
			Engine: func() image.Engine { return imageEngine{docker.Docker(), docker} },
			Logger: d.logger, GC: imageGC(cfg), StateFile: stateFile,
		})
	}
	p.meta = imagemeta.NewReader(imagemeta.Config{Engine: metadataEngine{docker}})
	d.addLogs(p, docker)
	return p, nil
}

// endpointOf is where the options say that the engine is.
func endpointOf(cfg *config.Plugin) endpoint {
	return endpoint{
		Host: cfg.Endpoint, CertFile: cfg.TLS.Cert, KeyFile: cfg.TLS.Key, CAFile: cfg.TLS.CA,
		Timeout: cfg.APITimeout,
	}
}

// imageGC is what the options say about unused images.
func imageGC(cfg *config.Plugin) image.GC {
	return image.GC{
		Enabled: cfg.GC.Image, Delay: cfg.GC.ImageDelay,
		ManagedOnly: cfg.GC.ImageScope == config.ImageScopeManaged,
	}
}

// emptyParts has what needs no machine.
func (d *Driver) emptyParts(cfg *config.Plugin) *parts {
	ctx, cancel := context.WithCancel(d.ctx)
	p := &parts{
		logger: d.logger, config: cfg, proc: procRoot, ctx: ctx, cancel: cancel,
		state: newStateFile(d.stateDir, d.logger), claimed: map[string]bool{}, unlinked: map[string]error{}, volumeLeft: make(chan struct{}, 1),
		charLinks: charLinks, procDevices: procDevices,
	}
	p.ledger = accounting.New(accounting.Config{
		Host: p, File: filepath.Join(d.stateDir, "accounting.jsonl"), JobMappingDir: cfg.GPU.JobMappingDir, Logger: d.logger,
	})
	return p
}

// addHost adds the GPU host, its driver volumes and what answers about them.
func (d *Driver) addHost(p *parts) error {
	g := p.config.GPU
	injections, err := gpuhost.ParseInjections(g.InjectHealth)
	if err != nil {
		return fmt.Errorf("plugin config: gpu.inject_health: %w", err)
	}
	xids, err := g.Health.XIDRules()
	if err != nil {
		return fmt.Errorf("plugin config: gpu.health: %w", err)
	}
	host, err := gpuhost.Open(gpuhost.Config{
		DriverRoot: g.DriverRoot, NVMLLibrary: g.NVMLLibrary, XID: xids, Inject: injections, Logger: d.logger.Named("gpuhost"),
	})
	if err != nil {
		return fmt.Errorf("plugin config: gpu: %w", err)
	}
	volumes, err := volume.NewStore(volume.Config{
		Dir: g.VolumesPath, Files: volume.Files(g.VolumeFiles), Capabilities: g.Capabilities, Logger: d.logger,
	}, host)
	if err != nil {
		host.Close()
		return fmt.Errorf("plugin config: gpu: %w", err)
	}
	p.host, p.volumes = host, volumes
	p.volumePlugin = volumes.Handler()
	p.api = restapi.Handler(restapi.Config{
		Host: host, Volumes: volumes, Allocations: d, Refusals: &d.refusals, Usage: p.ledger, Logger: d.logger,
	})
	return nil
}

// addLogs adds the log collection.
func (d *Driver) addLogs(p *parts, docker *dockerEngine) {
	p.logs = &shippers{
		config: p.config, engine: func() logship.Engine { return docker.Docker() },
		stateDir: filepath.Join(d.stateDir, "logs"), holder: newHolder(d.runDir, d.logger), files: d.logFiles, logger: d.logger, events: d.events,
	}
}

// metadataEngine is the engine as the metadata reader needs it.
type metadataEngine struct{ *dockerEngine }

func (e metadataEngine) ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (dockerimage.InspectResponse, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	return imageEngine{e.Docker(), e.dockerEngine}.ImageInspect(ctx, ref, opts...)
}

// imageEngine is the engine as the image coordinator needs it. It looks for an image
// before any other call, so that is where a change of the engine shows.
type imageEngine struct {
	*client.Client
	engine *dockerEngine
}

func (e imageEngine) ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (dockerimage.InspectResponse, error) {
	return speak(ctx, e.engine, func(c *client.Client) (dockerimage.InspectResponse, error) { return c.ImageInspect(ctx, ref, opts...) })
}
