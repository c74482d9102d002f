// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/orphan"
)

// Name is the plugin's name, which is also its file name in the plugin directory
// and the label of its block.
const Name = "nvidia-gpu"

// The vendor and type of every device group: tasks ask for "nvidia/gpu".
const (
	vendor     = "nvidia"
	deviceType = device.DeviceTypeGPU
)

// quietPeriods is for how many periods in a row a GPU that had a fault must be
// free of faults before it is healthy again.
const quietPeriods = 3

// Plugin is the device plugin. Safe for concurrent use.
type Plugin struct {
	log     hclog.Logger
	version string
	// open opens the host; a test may put something else in its place.
	open func(gpuhost.Config) (host, error)

	begun atomic.Bool // there was a complete offer

	mu       sync.Mutex      // guards everything below
	settings *settings       // nil before SetConfig
	host     host            // nil before the first use
	reserved map[string]bool // ids that were ever reserved, or may have been before this process began
	offered  *offer          // the last offer of any stream; nil before the first
}

var _ device.DevicePlugin = (*Plugin)(nil)

// NewPlugin makes a plugin that starts nothing. Version is the plugin's own,
// "1.2.3".
func NewPlugin(logger hclog.Logger, version string) *Plugin {
	return &Plugin{
		log: logger.Named(Name), version: version, reserved: make(map[string]bool),
		open: func(cfg gpuhost.Config) (host, error) { return gpuhost.Open(cfg) },
	}
}

// Serve serves the plugin to a Nomad agent until the agent ends it.
func Serve(version string) {
	plugins.Serve(func(logger hclog.Logger) any {
		p := NewPlugin(logger, version)
		if err := relaxTimers(os.Getpid()); err != nil {
			p.log.Debug("this process is woken more often than it needs to be", "error", err)
		}
		orphan.EndUnlessUsed(p.used)
		return p
	})
}

// used says whether an agent asked for more than schema and options.
func (p *Plugin) used() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host != nil
}

// PluginInfo tells Nomad what this plugin is.
func (p *Plugin) PluginInfo() (*base.PluginInfoResponse, error) {
	return &base.PluginInfoResponse{
		Type:              base.PluginTypeDevice,
		PluginApiVersions: []string{device.ApiVersion010},
		PluginVersion:     p.version,
		Name:              Name,
	}, nil
}

// ConfigSchema is the schema of the plugin's config block.
func (p *Plugin) ConfigSchema() (*hclspec.Spec, error) { return configSpec, nil }

// SetConfig checks and keeps the options; it starts nothing. It fails for invalid
// options, all of which it names.
func (p *Plugin) SetConfig(c *base.Config) error {
	var data []byte
	if c != nil {
		data = c.PluginConfig
	}
	settings, err := decodeConfig(data)
	if err != nil {
		return err
	}
	if err := p.checkIgnored(settings); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings, p.offered = settings, nil // other options, other ids
	if p.host != nil {
		p.host.Close() // opened anew with the new options
		p.host = nil
	}
	return nil
}

// checkIgnored refuses shortened ids that fit several GPUs. Only then is the host
// looked at, and not longer than a host lets its readers wait: the first look at a
// healthy one may need most of that. The fingerprint checks again.
func (p *Plugin) checkIgnored(s *settings) error {
	if !hasShortened(s.IgnoredGPUIDs) || !s.Enabled {
		return nil
	}
	h, err := p.openHost(s)
	if err != nil {
		return err
	}
	defer h.Close()
	if _, ambiguous := matchIgnored(s.IgnoredGPUIDs, h.Inventory(context.Background())); len(ambiguous) > 0 {
		return errors.Join(ambiguous...)
	}
	return nil
}

func (p *Plugin) openHost(s *settings) (host, error) {
	h, err := p.open(gpuhost.Config{
		DriverRoot: s.DriverRoot, NVMLLibrary: s.NVMLLibrary, Logger: p.log,
		HealthyAfter: quietPeriods * s.period, XID: s.xid, Inject: s.inject,
	})
	if err != nil {
		return nil, fmt.Errorf("plugin config: %w", err)
	}
	return h, nil
}

// start gives the host and the options, opening the host on first use.
func (p *Plugin) start() (host, *settings, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings == nil {
		settings, err := decodeConfig(nil)
		if err != nil {
			return nil, nil, err
		}
		p.settings = settings
	}
	if !p.settings.Enabled {
		return nil, nil, device.ErrPluginDisabled
	}
	if p.host == nil {
		h, err := p.openHost(p.settings)
		if err != nil {
			return nil, nil, err
		}
		p.host = h
		p.log.Info("NVIDIA device plugin starts", "version", p.version, "driver_root", p.settings.DriverRoot,
			"group_by", p.settings.GroupBy, "mig", p.settings.MIG, "sharing", p.settings.strategy)
	}
	return p.host, p.settings, nil
}

// Close ends the use of the driver. A plugin process just ends; this is for those
// who use a plugin within a longer life.
func (p *Plugin) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		p.host.Close()
		p.host = nil
	}
}

// hasShortened says whether one of the ids is not a whole UUID.
func hasShortened(ids []string) bool {
	for _, id := range ids {
		if len(id) < len("GPU-00000000-0000-0000-0000-000000000000") && strings.Contains(id, "-") {
			return true
		}
	}
	return false
}
