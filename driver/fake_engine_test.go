// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

// fakeEngine is an engine in memory. Containers run until a test ends them.
type fakeEngine struct {
	mu         sync.Mutex // guards everything below
	containers map[string]*fakeContainer
	made       int
	calls      []string // "create", "start <id>", …
	// failures are the errors of the next calls, by the call's name.
	failures map[string][]error
	// during is what happens while a call ("create", "wait", …) is under way.
	during map[string]func()
	away   bool // no call is answered
	hung   bool // no inspection is answered, but its end is waited for
	// stopCode is the exit code of a container that is asked to stop.
	stopCode int
	ooms     []string      // containers that ran out of memory, which the engine remembers
	oomNews  chan struct{} // closed when there is another, or when the streams break off
	oomEnds  int           // how often the streams broke off
	info     system.Info
	api      string // negotiated version
	version  types.Version
	exec     fakeExec
	// networks are those of every container.
	networks map[string]*network.EndpointSettings
}

type fakeContainer struct {
	id, name string
	labels   map[string]string
	host     engineapi.HostConfig
	env      []string // KEY=VALUE
	created  time.Time
	started  bool
	ended    chan struct{} // closed at the end
	state    engineapi.State
	sandbox  string
	mounts   []engineapi.MountPoint
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{
		containers: map[string]*fakeContainer{}, failures: map[string][]error{}, oomNews: make(chan struct{}), stopCode: 143, api: "1.41", during: map[string]func(){},
		info:    system.Info{OSType: "linux", DefaultRuntime: "runc", Runtimes: map[string]system.RuntimeWithStatus{"runc": {}}},
		version: types.Version{Version: "20.10.24", APIVersion: "1.41"},
	}
}

var (
	errAway      = fmt.Errorf("error during connect: %w", io.EOF)
	errNoSuch    = fmt.Errorf("engine: No such container: %w", errdefs.ErrNotFound)
	errNameTaken = fmt.Errorf("engine: Conflict. The name is in use: %w", errdefs.ErrConflict)
	// errVolumeTaken: a conflict that is not about the container's name.
	errVolumeTaken = fmt.Errorf("engine: create nvidia_driver_1: conflict: volume name must be unique: %w", errdefs.ErrConflict)
	errNoImage     = fmt.Errorf("engine: No such image: %w", errdefs.ErrNotFound)
)

// fail makes the next calls of a name fail.
func (e *fakeEngine) fail(call string, errs ...error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures[call] = append(e.failures[call], errs...)
}

func (e *fakeEngine) setAway(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
	if away { // whoever waits loses the connection
		for _, c := range e.containers {
			if c.started && c.state.Running {
				close(c.ended)
				c.ended = make(chan struct{})
			}
		}
	}
}

// end ends a container.
func (e *fakeEngine) end(id string, code int, oom bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(e.containers[id], code, oom)
}

func (e *fakeEngine) endLocked(c *fakeContainer, code int, oom bool) {
	if !c.state.Running {
		return
	}
	c.state.Running, c.state.Status, c.state.ExitCode, c.state.OOMKilled = false, engineapi.StateExited, code, oom
	c.state.FinishedAt = time.Now().UTC().Format(time.RFC3339Nano)
	close(c.ended)
}

// put adds a container that somebody else made.
func (e *fakeEngine) put(name string, labels map[string]string, running bool, created time.Time) *fakeContainer {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made++
	c := &fakeContainer{id: fmt.Sprintf("id-%d", e.made), name: name, labels: labels, created: created, ended: make(chan struct{}), started: running}
	c.state = engineapi.State{Status: engineapi.StateCreated}
	if running {
		c.state = engineapi.State{Status: engineapi.StateRunning, Running: true, Pid: 1, StartedAt: created.UTC().Format(time.RFC3339Nano)}
	}
	e.containers[c.id] = c
	return c
}

// enter counts a call and says whether it fails.
func (e *fakeEngine) enter(call, id string) error {
	e.calls = append(e.calls, strings.TrimSpace(call+" "+id))
	if e.away {
		return errAway
	}
	if list := e.failures[call]; len(list) > 0 {
		e.failures[call] = list[1:]
		return list[0]
	}
	return nil
}

// onNext has something done during the next call of a name, before it counts.
func (e *fakeEngine) onNext(call string, do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.during[call] = do
}

// pass does what is to happen during a call.
func (e *fakeEngine) pass(call string) {
	e.mu.Lock()
	do := e.during[call]
	delete(e.during, call)
	e.mu.Unlock()
	if do != nil {
		do()
	}
}

// called says how often a call was made.
func (e *fakeEngine) called(call string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if c == call || strings.HasPrefix(c, call+" ") {
			n++
		}
	}
	return n
}

// names are the containers that exist, sorted.
func (e *fakeEngine) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := []string{}
	for _, c := range e.containers {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return names
}

func (e *fakeEngine) find(idOrName string) *fakeContainer {
	for _, c := range e.containers {
		if c.id == idOrName || c.name == idOrName {
			return c
		}
	}
	return nil
}

func (e *fakeEngine) Create(_ context.Context, req *container.Request) (string, error) {
	e.pass("create")
	e.mu.Lock()
	if err := e.enter("create", ""); err != nil {
		e.mu.Unlock()
		return "", err
	}
	taken := e.find(req.Name) != nil
	e.mu.Unlock()
	if taken {
		return "", errNameTaken
	}
	c := e.put(req.Name, req.Config.Labels, false, time.Now())
	c.host, c.env = *req.HostConfig, req.Config.Env
	return c.id, nil
}

func (e *fakeEngine) Start(_ context.Context, id string) error {
	defer e.pass("started")
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.enter("start", id); err != nil {
		return err
	}
	c := e.find(id)
	if c == nil {
		return errNoSuch
	}
	c.started = true
	c.state = engineapi.State{Status: engineapi.StateRunning, Running: true, Pid: 1, StartedAt: time.Now().UTC().Format(time.RFC3339Nano)}
	return nil
}

func (e *fakeEngine) Inspect(ctx context.Context, idOrName string) (engineapi.InspectResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hung {
		e.mu.Unlock()
		<-ctx.Done()
		e.mu.Lock()
		return engineapi.InspectResponse{}, ctx.Err()
	}
	if err := e.enter("inspect", idOrName); err != nil {
		return engineapi.InspectResponse{}, err
	}
	c := e.find(idOrName)
	if c == nil {
		return engineapi.InspectResponse{}, errNoSuch
	}
	state := c.state
	settings := &engineapi.NetworkSettings{Networks: e.networks}
	settings.SandboxKey = c.sandbox
	return engineapi.InspectResponse{
		ContainerJSONBase: &engineapi.ContainerJSONBase{ID: c.id, Name: c.name, State: &state, HostConfig: &c.host},
		Config:            &engineapi.Config{Labels: c.labels},
		NetworkSettings:   settings,
	}, nil
}

func (e *fakeEngine) List(_ context.Context, all bool, labels ...string) ([]engineapi.Summary, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.enter("list", ""); err != nil {
		return nil, err
	}
	var found []engineapi.Summary
	for _, c := range e.containers {
		if (all || c.state.Running) && hasLabels(c.labels, labels) {
			found = append(found, engineapi.Summary{ID: c.id, Names: []string{"/" + c.name}, Labels: c.labels, Created: c.created.Unix(), State: c.state.Status, Mounts: c.mounts})
		}
	}
	return found, nil
}

func hasLabels(have map[string]string, want []string) bool {
	for _, w := range want {
		name, value, exact := strings.Cut(w, "=")
		got, ok := have[name]
		if !ok || exact && got != value {
			return false
		}
	}
	return true
}

func (e *fakeEngine) Kill(_ context.Context, id, signal string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.enter("kill", id+" "+signal); err != nil {
		return err
	}
	c := e.find(id)
	if c == nil {
		return errNoSuch
	}
	if signal == "SIGKILL" || signal == "9" {
		e.endLocked(c, 137, false)
	}
	return nil
}

func (e *fakeEngine) Stop(_ context.Context, id, _ string, grace time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.enter("stop", fmt.Sprintf("%s %s", id, grace)); err != nil {
		return err
	}
	c := e.find(id)
	if c == nil {
		return errNoSuch
	}
	e.endLocked(c, e.stopCode, false)
	return nil
}

func (e *fakeEngine) Remove(_ context.Context, id string) error {
	e.pass("remove")
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.enter("remove", id); err != nil {
		return err
	}
	c := e.find(id)
	if c == nil {
		return errNoSuch
	}
	e.endLocked(c, 137, false)
	delete(e.containers, c.id)
	return nil
}

func (e *fakeEngine) Wait(ctx context.Context, id string) (int64, error) {
	e.pass("wait")
	e.mu.Lock()
	if err := e.enter("wait", id); err != nil {
		e.mu.Unlock()
		return 0, err
	}
	c := e.find(id)
	if c == nil {
		e.mu.Unlock()
		return 0, errNoSuch
	}
	ended := c.ended
	e.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return 0, errAway
	}
	return int64(c.state.ExitCode), nil
}

func (e *fakeEngine) Stats(context.Context, string) (io.ReadCloser, error) {
	e.pass("stats")
	return nil, errdefs.ErrNotImplemented
}

func (e *fakeEngine) Version(context.Context) (types.Version, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.version, e.enter("version", "")
}

func (e *fakeEngine) Info(context.Context) (system.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.info, e.enter("info", "")
}

func (e *fakeEngine) Networks(context.Context) ([]network.Summary, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.enter("networks", ""); err != nil {
		return nil, err
	}
	return []network.Summary{{Name: "bridge", IPAM: network.IPAM{Config: []network.IPAMConfig{{Gateway: "172.17.0.1"}}}}}, nil
}

// oom has a container run out of memory.
func (e *fakeEngine) oom(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ooms = append(e.ooms, id)
	e.wakeOOMs()
}

// breakOOMs ends all streams of such reports. Until the next one begins, a report
// reaches nobody.
func (e *fakeEngine) breakOOMs() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.oomEnds++
	e.wakeOOMs()
}

func (e *fakeEngine) wakeOOMs() {
	close(e.oomNews)
	e.oomNews = make(chan struct{})
}

func (e *fakeEngine) OOMs(ctx context.Context, seen func(string)) error {
	e.mu.Lock()
	e.calls = append(e.calls, "ooms")
	told, ends := 0, e.oomEnds
	e.mu.Unlock()
	for {
		e.mu.Lock()
		news, broken, all := e.oomNews, e.oomEnds != ends, slices.Clone(e.ooms)
		e.mu.Unlock()
		if broken {
			return errAway
		}
		for ; told < len(all); told++ {
			seen(all[told])
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *fakeEngine) APIVersion() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.api
}

func (e *fakeEngine) Close() error { return nil }
