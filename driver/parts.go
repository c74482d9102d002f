// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/driver/image"
	"github.com/gpu-docker/gpu-docker/driver/logship"
	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/guard"
	"github.com/gpu-docker/gpu-docker/restapi/accounting"
	"github.com/gpu-docker/gpu-docker/restapi/serve"
	"github.com/gpu-docker/gpu-docker/volume"
)

// gpuHost is what the driver asks of the GPU host; *gpuhost.Host satisfies it.
type gpuHost interface {
	Inventory(ctx context.Context) *gpuhost.Inventory
	Readings(ctx context.Context) *gpuhost.Readings
	ReadingsNow(ctx context.Context) *gpuhost.Readings
	Watch() (changed <-chan struct{}, stop func())
	ControlNodes() []gpuhost.DeviceNode
	GPUNode(g *gpuhost.GPU) (gpuhost.DeviceNode, error)
	MIGNodes(g *gpuhost.GPU, m *gpuhost.MIGDevice) ([]gpuhost.DeviceNode, error)
	Close()
}

// driverVolumes is what the driver asks of the volume store; *volume.Store
// satisfies it.
type driverVolumes interface {
	Ensure(ctx context.Context) (*volume.Volume, error)
	List() ([]volume.Volume, error)
	Prune(ctx context.Context, inUse func(version string) bool) ([]volume.Volume, error)
}

// images gets and counts images; *image.Coordinator satisfies it.
type images interface {
	Start() error
	Resolve(ctx context.Context, req image.Request, who image.Caller) (string, error)
	Adopt(imageID, callerID string)
	Release(imageID, callerID string)
	Close()
}

// logCollector starts the log collection of tasks.
type logCollector interface {
	// Expect keeps the log of a created container from its first line on. path is
	// where the engine will write it. Nil when that is not possible or not wanted.
	Expect(cfg *drivers.TaskConfig, path string) *logship.Ahead
	// Ship carries the task's output from the engine to where Nomad reads it, from
	// where an earlier collection of the same container ended. It takes ahead over,
	// which may be nil. Nil without an error: nothing is collected.
	Ship(cfg *drivers.TaskConfig, s *taskState, ahead *logship.Ahead) (logShipping, error)
}

// parts is everything that one configuration gives. The fields are set once;
// wake starts what runs in the background.
type parts struct {
	logger  hclog.Logger
	config  *config.Plugin
	engine  engine
	images  images // made by wake
	host    gpuHost
	volumes driverVolumes
	meta    metadataReader
	logs    logCollector
	state   *stateFile
	// ledger keeps what each task uses of its GPUs.
	ledger *accounting.Ledger
	// makeImages is given the file for image references, or none.
	makeImages func(stateFile string) images
	// api and volumePlugin answer the REST API and the engine's volume requests.
	api, volumePlugin http.Handler
	// proc is procRoot.
	proc string
	// engineErr says why there is no engine client; nil when there is one.
	engineErr error

	// charLinks has the links of device numbers to their nodes, procDevices the kernel's
	// list of majors.
	charLinks, procDevices string

	wakeOnce sync.Once
	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	loops    sync.WaitGroup
	// volumeLeft has a value when a task with an earlier driver's volume has gone.
	volumeLeft chan struct{}
	// prebuilding is held while the driver volume is built ahead of any task.
	prebuilding sync.Mutex

	mu     sync.Mutex    // guards everything below
	server *serve.Server // nil before wake
	info   *engineInfo   // nil before the engine told
	// unlinked says of device nodes that tasks have why they lack the link that
	// systemd needs.
	unlinked map[string]error
	silent   time.Time // when a recovery last had no answer in time; zero after one
	// claimed are the pause containers that somebody named since the start.
	claimed map[string]bool
}

// hostCloseLimit is how long the end of the host's use is waited for. NVML may wait
// for events for 2 s yet, and that is when an agent kills a plugin that it stops.
const hostCloseLimit = 250 * time.Millisecond

// close ends the background work. Tasks go on with the engine client they have.
func (p *parts) close() {
	p.mu.Lock()
	p.cancel() // no loop begins from now on
	server := p.server
	p.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	p.loops.Wait()
	if p.images != nil {
		p.images.Close()
	}
	closed := make(chan struct{})
	go func() {
		defer guard.Log(p.logger, "closing the GPU host")
		defer close(closed)
		p.host.Close()
	}()
	waitFor(context.Background(), closed, hostCloseLimit)
	if p.engine != nil {
		if err := p.engine.Close(); err != nil {
			p.logger.Debug("closing the engine client", "error", err)
		}
	}
	p.state.Close()
}

// engineInfo is what the engine told about itself.
type engineInfo struct {
	rootDir        string // of the engine's files
	defaultRuntime string
	runtimes       []string // sorted
	nvidiaRuntimes []string // those that give GPUs away; sorted
	cgroupDriver   string   // "cgroupfs" or "systemd"
}

// noteInfo keeps what the engine told.
func (p *parts) noteInfo(info system.Info) engineInfo {
	told := engineInfo{
		rootDir:        info.DockerRootDir,
		defaultRuntime: info.DefaultRuntime,
		runtimes:       slices.Sorted(maps.Keys(info.Runtimes)),
		cgroupDriver:   info.CgroupDriver,
	}
	for _, name := range told.runtimes {
		if container.IsNVIDIARuntime(p.config, name, info.Runtimes[name].Runtime) {
			told.nvidiaRuntimes = append(told.nvidiaRuntimes, name)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = &told
	return told
}

// askInfo is what the engine told last, at most one fingerprint ago. It does not
// depend on a fingerprint having run (task-driver PL-13).
func (p *parts) askInfo(ctx context.Context) (engineInfo, error) {
	p.mu.Lock()
	known := p.info
	p.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	info, err := p.engine.Info(ctx)
	if err != nil {
		return engineInfo{}, err
	}
	return p.noteInfo(info), nil
}

// serverStatus tells what this process serves now.
func (p *parts) serverStatus() serve.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return serve.Status{}
	}
	return p.server.Status()
}
