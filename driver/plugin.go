// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/guard"
)

// Name is the driver's name in jobs.
const Name = "gpu-docker"

// errNotConfigured answers calls that come before SetConfig (task-driver PL-6).
var errNotConfigured = errors.New("driver gpu-docker is not configured yet")

// Driver is the task driver. All methods are safe for concurrent use.
type Driver struct {
	logger  hclog.Logger
	version string
	events  *eventer
	tasks   *store
	// build makes the parts of a configuration; tests put fakes in.
	build func(*config.Plugin) (*parts, error)
	gpus  *gpuTable
	ooms  *oomReports
	kills *killWatch
	// oomPatience is the constant of that name; tests have their own.
	oomPatience time.Duration
	// refusals are the images that were refused.
	refusals refusalLog
	// refresh wakes the fingerprint streams when what they tell has changed.
	refresh  refresh
	logFiles *logFiles
	// stateDir outlives the host's restarts, runDir does not.
	stateDir, runDir string

	// ctx ends with the plugin.
	ctx    context.Context
	cancel context.CancelFunc

	watchers sync.WaitGroup // one for each task

	// engineSeen: an engine answered once in this process.
	engineSeen atomic.Bool
	healthy    atomic.Bool
	// used: an agent asked for more than schema and options, so that the process
	// must outlive it.
	used atomic.Bool

	mu         sync.Mutex // guards everything below
	parts      *parts     // nil before SetConfig
	lastHealth string
	nvidia     nvidiaFacts // in the last fingerprint
	node       string      // the Nomad node's id; empty before the first task
	allocRoot  string      // where that node has its allocation directories
}

var (
	_ drivers.DriverPlugin            = (*Driver)(nil)
	_ drivers.ExecTaskStreamingDriver = (*Driver)(nil)
	_ drivers.DriverNetworkManager    = (*Driver)(nil)
)

// NewPlugin makes a driver that starts nothing. Version is the plugin's own,
// "1.2.3".
func NewPlugin(logger hclog.Logger, version string) *Driver {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Driver{
		logger:  logger.Named(Name),
		version: version,
		events:  newEventer(logger.Named(Name)),
		tasks:   newStore(),
		gpus:    newGPUTable(),
		ctx:     ctx,
		cancel:  cancel,

		oomPatience: oomPatience,

		stateDir: defaultStateDir,
		runDir:   defaultRunDir,
	}
	if dir := os.Getenv(stateDirEnv); dir != "" {
		d.stateDir, d.runDir = dir, filepath.Join(dir, "run")
	}
	d.logFiles = &logFiles{logger: d.logger}
	d.ooms = &oomReports{tasks: d.tasks}
	d.kills = &killWatch{logger: d.logger}
	d.build = d.realParts
	return d
}

// PluginInfo tells Nomad what this plugin is.
func (d *Driver) PluginInfo() (*base.PluginInfoResponse, error) {
	return &base.PluginInfoResponse{
		Type:              base.PluginTypeDriver,
		PluginApiVersions: []string{drivers.ApiVersion010},
		PluginVersion:     d.version,
		Name:              Name,
	}, nil
}

// ConfigSchema is the schema of the plugin block.
func (d *Driver) ConfigSchema() (*hclspec.Spec, error) { return config.PluginSpec, nil }

// TaskConfigSchema is the schema of a task's config block.
func (d *Driver) TaskConfigSchema() (*hclspec.Spec, error) { return config.TaskSpec, nil }

// SetConfig checks and keeps the options. It fails for invalid options only and
// has no other effect (task-driver PL-4, PL-5).
func (d *Driver) SetConfig(c *base.Config) error {
	var data []byte
	if c != nil {
		data = c.PluginConfig
	}
	cfg, err := config.DecodePlugin(data)
	if err != nil {
		return err
	}
	if cfg.CompatLabels {
		d.logger.Warn("compat_labels is on: the built-in docker driver will remove our containers unless it is disabled or its gc.dangling_containers is")
	}
	fresh, err := d.build(cfg)
	if err != nil {
		return err
	}
	d.install(fresh)
	return nil
}

// install puts new parts in place of old ones.
func (d *Driver) install(fresh *parts) {
	d.mu.Lock()
	old := d.parts
	d.parts = fresh
	d.mu.Unlock()
	if old != nil {
		old.close()
	}
}

// configured returns the parts without waking them.
func (d *Driver) configured() (*parts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parts == nil {
		return nil, errNotConfigured
	}
	return d.parts, nil
}

// awake returns the parts of a live plugin: servers and loops run. There may be
// no engine client.
func (d *Driver) awake() (*parts, error) {
	p, err := d.configured()
	if err != nil {
		return nil, err
	}
	d.used.Store(true)
	p.wakeOnce.Do(func() { d.wake(p) })
	return p, nil
}

// ready returns the parts of a live plugin that has an engine client.
func (d *Driver) ready() (*parts, error) {
	p, err := d.awake()
	if err != nil {
		return nil, err
	}
	if p.engineErr != nil {
		return nil, fmt.Errorf("no connection to a Docker Engine: %w", p.engineErr)
	}
	return p, nil
}

// Capabilities tells Nomad what tasks of this driver can do.
func (d *Driver) Capabilities() (*drivers.Capabilities, error) {
	caps := &drivers.Capabilities{
		SendSignals:         true,
		Exec:                true,
		FSIsolation:         drivers.FSIsolationImage,
		NetIsolationModes:   []drivers.NetIsolationMode{drivers.NetIsolationModeHost, drivers.NetIsolationModeGroup, drivers.NetIsolationModeTask},
		MustInitiateNetwork: true,
		MountConfigs:        drivers.MountConfigSupportAll,
	}
	if p, err := d.configured(); err == nil {
		caps.MustInitiateNetwork = p.config.InitiateNetwork
		caps.DisableLogCollection = p.config.DisableLogCollection || p.config.Logs.Collector == config.CollectorDriver
	}
	return caps, nil
}

// TaskEvents streams what users should know about their tasks.
func (d *Driver) TaskEvents(ctx context.Context) (<-chan *drivers.TaskEvent, error) {
	if _, err := d.configured(); err != nil {
		return nil, err
	}
	return d.events.Subscribe(ctx), nil
}

// Shutdown ends all goroutines of the driver. Containers go on running.
func (d *Driver) Shutdown() {
	d.cancel()
	for _, t := range d.tasks.All() {
		if logs := t.shipping(); logs != nil {
			logs.Stop()
		}
	}
	d.watchers.Wait()
	d.logFiles.close()
	d.kills.close()
	if p, err := d.configured(); err == nil {
		p.close()
	}
}

// guard keeps a panic of one goroutine from ending the driver for all tasks. It
// is deferred at the top of every goroutine, or its like in package guard.
func (d *Driver) guard(what string) {
	if r := recover(); r != nil {
		guard.Tell(d.logger, what, r)
	}
}
