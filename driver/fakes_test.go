// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/image"
	"github.com/gpu-docker/gpu-docker/driver/logship"
	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/imagemeta"
	"github.com/gpu-docker/gpu-docker/volume"
)

// fakeImages has every image; ids are "sha256:<name>".
type fakeImages struct {
	mu    sync.Mutex          // guards everything below
	uses  map[string][]string // image id to users
	fail  error
	pulls int
	asked image.Request // the last one
	// hang, when set, is closed by a call that then waits for the end of its context.
	hang chan struct{}
}

func (f *fakeImages) Start() error { return nil }
func (f *fakeImages) Close()       {}

func (f *fakeImages) Resolve(ctx context.Context, req image.Request, who image.Caller) (string, error) {
	if f.hang != nil {
		close(f.hang)
		<-ctx.Done()
		return "", ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return "", f.fail
	}
	f.pulls++
	f.asked = req
	id := "sha256:" + req.Ref
	if !slices.Contains(f.uses[id], who.ID) {
		f.uses[id] = append(f.uses[id], who.ID)
	}
	return id, nil
}

func (f *fakeImages) Adopt(imageID, callerID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses[imageID] = append(f.uses[imageID], callerID)
}

func (f *fakeImages) Release(imageID, callerID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses[imageID] = slices.DeleteFunc(f.uses[imageID], func(id string) bool { return id == callerID })
}

// inUse counts all uses.
func (f *fakeImages) inUse() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, users := range f.uses {
		n += len(users)
	}
	return n
}

// fakeHost is a GPU host with the inventory that a test gives.
type fakeHost struct {
	mu       sync.Mutex // guards everything below
	inv      gpuhost.Inventory
	readings gpuhost.Readings
	changed  chan struct{} // what Watch gives; nil never tells anything
	lacks    string        // a control node or a MIG capability's that is not there
	dev      string        // where the nodes are; empty: nowhere
}

// twoGPUs is a host with driver 535.104.05 and GPUs whose minors run backwards.
func twoGPUs() *fakeHost {
	tesla := "tesla"
	return &fakeHost{inv: gpuhost.Inventory{
		Driver: gpuhost.Driver{Version: "535.104.05", CUDA: gpuhost.CUDAVersion{Major: 12, Minor: 2}},
		GPUs: []gpuhost.GPU{
			{Index: 0, UUID: "GPU-a", Minor: 1, Brand: &tesla, ComputeCapability: &gpuhost.ComputeCapability{Major: 8}},
			{Index: 1, UUID: "GPU-b", Minor: 0, MIGDevices: []gpuhost.MIGDevice{{UUID: "MIG-c"}}},
		},
	}}
}

func (h *fakeHost) Inventory(context.Context) *gpuhost.Inventory {
	h.mu.Lock()
	defer h.mu.Unlock()
	inv := h.inv
	inv.GPUs = slices.Clone(h.inv.GPUs)
	return &inv
}

func (h *fakeHost) Watch() (<-chan struct{}, func()) { return h.changed, func() {} }

func (h *fakeHost) Readings(context.Context) *gpuhost.Readings {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.readings
	return &r
}

func (h *fakeHost) ReadingsNow(ctx context.Context) *gpuhost.Readings {
	now := h.Readings(ctx)
	now.Time = time.Now()
	return now
}

func (h *fakeHost) change(f func(*fakeHost)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

func (h *fakeHost) ControlNodes() []gpuhost.DeviceNode {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc([]gpuhost.DeviceNode{h.node("nvidiactl"), h.node("nvidia-uvm")}, func(n gpuhost.DeviceNode) bool {
		return filepath.Base(n.ContainerPath) == h.lacks
	})
}

func (h *fakeHost) GPUNode(g *gpuhost.GPU) (gpuhost.DeviceNode, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node(fmt.Sprintf("nvidia%d", g.Minor)), nil
}

func (h *fakeHost) MIGNodes(*gpuhost.GPU, *gpuhost.MIGDevice) ([]gpuhost.DeviceNode, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var nodes []gpuhost.DeviceNode
	for _, name := range []string{"nvidia-cap1", "nvidia-cap2"} {
		if name == h.lacks {
			return nodes, fmt.Errorf("device node %q is missing", "/dev/nvidia-caps/"+name)
		}
		nodes = append(nodes, h.node("nvidia-caps/"+name))
	}
	return nodes, nil
}

func (h *fakeHost) Close() {}

func (h *fakeHost) node(name string) gpuhost.DeviceNode {
	dir := h.dev
	if dir == "" {
		dir = "/nowhere"
	}
	return gpuhost.DeviceNode{HostPath: filepath.Join(dir, name), ContainerPath: "/dev/" + name}
}

// fakeVolumes has the volume of one driver version, and of earlier ones.
type fakeVolumes struct {
	version string
	earlier []string
	pruned  *[]string // what Prune removed
}

func (v fakeVolumes) Ensure(context.Context) (*volume.Volume, error) {
	return &volume.Volume{Name: volume.Name(v.version), Version: v.version}, nil
}

func (v fakeVolumes) List() ([]volume.Volume, error) {
	var all []volume.Volume
	for _, version := range append(v.earlier, v.version) {
		all = append(all, volume.Volume{Name: volume.Name(version), Version: version, Mountpoint: "/volumes/nvidia_driver/" + version})
	}
	return all, nil
}

func (v fakeVolumes) Prune(_ context.Context, inUse func(string) bool) ([]volume.Volume, error) {
	for _, version := range v.earlier {
		if !inUse(version) {
			*v.pruned = append(*v.pruned, version)
		}
	}
	return nil, nil
}

// fakeMeta tells the same of every image. Without local, the engine has none
// before the pull.
type fakeMeta struct {
	mu       sync.Mutex // guards everything below
	md       compat.Metadata
	remote   *compat.Metadata // what the registry tells; nil: md
	absent   bool             // from the engine, until the first question to the registry
	noRemote error            // of the registry
	asked    []string
}

func (m *fakeMeta) Local(_ context.Context, ref string) (*imagemeta.Image, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, "local "+ref)
	if m.absent {
		m.absent = false
		return nil, imagemeta.ErrNotFound
	}
	return &imagemeta.Image{Metadata: m.md}, nil
}

func (m *fakeMeta) Remote(_ context.Context, req imagemeta.Request) (*imagemeta.Image, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, "remote "+req.Image)
	if m.noRemote != nil {
		return nil, m.noRemote
	}
	if m.remote != nil {
		return &imagemeta.Image{Metadata: *m.remote}, nil
	}
	return &imagemeta.Image{Metadata: m.md}, nil
}

// fakeLogs notes what is shipped.
type fakeLogs struct {
	mu   sync.Mutex // guards everything below
	log  []string
	fail error
	// expected are the paths of logs that were waited for.
	expected []string
}

func (l *fakeLogs) Expect(_ *drivers.TaskConfig, path string) *logship.Ahead {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = append(l.expected, path)
	return nil
}

func (l *fakeLogs) Ship(_ *drivers.TaskConfig, s *taskState, _ *logship.Ahead) (logShipping, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return nil, l.fail
	}
	l.log = append(l.log, "ship "+s.ContainerID)
	return (*fakeShipment)(l), nil
}

type fakeShipment fakeLogs

func (s *fakeShipment) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

func (s *fakeShipment) Drain(context.Context) { s.note("drain") }
func (s *fakeShipment) Stop()                 { s.note("stop") }
func (s *fakeShipment) Close()                { s.note("close") }

// bench is a driver among fakes, behind the plugin boundary.
type bench struct {
	remote
	t       *testing.T
	driver  *Driver
	engine  *fakeEngine
	images  *fakeImages
	host    *fakeHost
	meta    *fakeMeta
	logs    *fakeLogs
	allocs  string
	madeIDs int
}

// newBench makes a driver whose options change may alter.
func newBench(t *testing.T, change func(*config.Plugin)) *bench {
	t.Helper()
	b := &bench{
		t: t, engine: newFakeEngine(), images: &fakeImages{uses: map[string][]string{}},
		host: twoGPUs(), meta: &fakeMeta{}, logs: &fakeLogs{}, allocs: t.TempDir(),
	}
	b.driver = NewPlugin(hclog.NewNullLogger(), "0.0.1")
	b.driver.stateDir = t.TempDir()
	b.driver.oomPatience = time.Millisecond // no report comes late unless a test says so
	b.driver.build = b.parts
	r, stop := dial(t, b.driver)
	b.remote = r
	t.Cleanup(func() { stop(); b.driver.Shutdown() })

	cfg := config.DefaultPlugin()
	cfg.GPU.APIAddress, cfg.GPU.VolumeSocketDir, cfg.GPU.VolumeMode = "", "", config.VolumeModeBind
	if change != nil {
		change(cfg)
	}
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	must.NoError(t, r.SetConfig(&base.Config{PluginConfig: data}))
	return b
}

// parts are the fakes.
func (b *bench) parts(cfg *config.Plugin) (*parts, error) {
	p := b.driver.emptyParts(cfg)
	p.engine, p.host, p.meta, p.logs = b.engine, b.host, b.meta, b.logs
	p.makeImages = func(string) images { return b.images }
	p.volumes = fakeVolumes{version: "535.104.05"}
	return p, nil
}

// task makes a task, with GPUs when ids are given.
func (b *bench) task(change func(*config.Task), ids ...string) *drivers.TaskConfig {
	b.t.Helper()
	b.madeIDs++
	alloc := fmt.Sprintf("8b2bd0de-1a2f-4a5f-9f2b-%012d", b.madeIDs)
	cfg := &drivers.TaskConfig{
		ID: alloc + "/t/1", AllocID: alloc, Name: "t", JobName: "j", JobID: "j", TaskGroupName: "g",
		NodeID: "node", AllocDir: filepath.Join(b.allocs, alloc), StdoutPath: "/dev/null", StderrPath: "/dev/null",
		Env: map[string]string{"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets"},
		Resources: &drivers.Resources{
			NomadResources: &structs.AllocatedTaskResources{Memory: structs.AllocatedMemoryResources{MemoryMB: 64}},
			LinuxResources: &drivers.LinuxResources{CPUShares: 100},
		},
	}
	options := &config.Task{Image: "registry.example/img:1", Command: "/bin/true"}
	if change != nil {
		change(options)
	}
	must.NoError(b.t, cfg.EncodeConcreteDriverConfig(options))
	if len(ids) > 0 {
		reserveIDs(cfg, ids...)
	}
	return cfg
}

// reserveIDs gives a task GPUs as Nomad does after the device plugin's Reserve.
func reserveIDs(cfg *drivers.TaskConfig, ids ...string) {
	list := ids[0]
	for _, id := range ids[1:] {
		list += "," + id
	}
	cfg.DeviceEnv = map[string]string{visibleDevices: list}
	cfg.Env[visibleDevices] = list
}

// start starts a task and returns its container's id.
func (b *bench) start(cfg *drivers.TaskConfig) (string, *drivers.TaskHandle) {
	b.t.Helper()
	h, _, err := b.StartTask(cfg)
	must.NoError(b.t, err)
	t, err := b.driver.tasks.Get(cfg.ID)
	must.NoError(b.t, err)
	return t.state.ContainerID, h
}

// wait waits for a task's end.
func (b *bench) wait(id string) *drivers.ExitResult {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	ch, err := b.WaitTask(ctx, id)
	must.NoError(b.t, err)
	r := <-ch
	must.NotNil(b.t, r)
	return r
}
