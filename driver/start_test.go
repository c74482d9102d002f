// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

func internal(text string) error { return fmt.Errorf("%s: %w", text, errdefs.ErrInternal) }

// TestStartFailures: nothing is left behind after any failure (task-driver ST-5),
// and only what may pass by itself is recoverable.
func TestStartFailures(t *testing.T) {
	noUser := internal("unable to find user nobody2: no matching entries in passwd file")
	for _, tc := range []struct {
		name        string
		prepare     func(*bench)
		change      func(*config.Task)
		gpus        []string
		wantErr     string
		recoverable bool
		created     bool // a container was made and taken back
	}{
		{name: "no image", change: func(o *config.Task) { o.Image = "" }, wantErr: "image name required"},
		{name: "privileged is not allowed", change: func(o *config.Task) { o.Privileged = true }, wantErr: `Failed to create container configuration for image "registry.example/img:1": task config: privileged: Docker privileged mode is disabled`},
		{
			name: "image cannot be had", wantErr: "no such tag",
			prepare: func(b *bench) { b.images.fail = errors.New("no such tag") },
		},
		{
			name: "image may come later", wantErr: "registry away", recoverable: true,
			prepare: func(b *bench) {
				b.images.fail = structs.NewRecoverableError(errors.New("registry away"), true)
			},
		},
		{
			name: "create refused", wantErr: `failed to create container: unable to find user`,
			prepare: func(b *bench) { b.engine.fail("create", noUser) },
		},
		{
			name: "create while the engine goes away", wantErr: "failed to create container", recoverable: true,
			prepare: func(b *bench) { b.engine.fail("create", slices.Repeat([]error{errAway}, transientTries+1)...) },
		},
		{
			name: "start refused", wantErr: "Failed to start container", created: true,
			prepare: func(b *bench) { b.engine.fail("start", internal("exec: \"x\": executable file not found in $PATH")) },
		},
		{
			name: "a volume's name is taken", wantErr: `volume name must be unique: conflict; a volume of this name exists with another driver`,
			prepare: func(b *bench) { b.engine.fail("create", errVolumeTaken) },
		},
		{
			name: "a host port stays taken", wantErr: "another container publishes this host port", recoverable: true, created: true,
			prepare: func(b *bench) {
				b.engine.fail("start", slices.Repeat([]error{internal("Bind for 0.0.0.0:80 failed: port is already allocated")}, transientTries+1)...)
			},
		},
		{
			name: "a failing look after the start", wantErr: `failed to inspect container "id-1" after its start`, recoverable: true, created: true,
			prepare: func(b *bench) { b.engine.fail("inspect", errAway) },
		},
		{
			name: "the container is gone at start", wantErr: "No such container", recoverable: true, created: true,
			prepare: func(b *bench) { b.engine.fail("start", errNoSuch) },
		},
		{
			name: "logs cannot be collected", wantErr: "failed to start the log collection", recoverable: true, created: true,
			prepare: func(b *bench) { b.logs.fail = errors.New("no pipe") },
		},
		{name: "unknown GPU", gpus: []string{"GPU-x"}, wantErr: `reserved "GPU-x" is not on this node; it has GPU-a, GPU-b, MIG-c`, recoverable: true},
		{
			name: "unhealthy GPU", gpus: []string{"GPU-a"}, wantErr: "fell off the bus", recoverable: true,
			prepare: func(b *bench) { b.host.inv.GPUs[0].Unhealthy = "fell off the bus" },
		},
		{
			name: "no driver any more", gpus: []string{"GPU-a"}, wantErr: "no NVIDIA driver now: unloaded", recoverable: true,
			prepare: func(b *bench) { b.host.inv.Driver.Version, b.host.inv.Reason = "", "unloaded" },
		},
		{
			name: "a driver that does not tell its version", gpus: []string{"GPU-a"}, recoverable: true,
			wantErr: "no NVIDIA driver now: its kernel module is 535.104.05, but the version query failed: unknown error (code 999); see the kernel's log",
			prepare: func(b *bench) {
				b.host.inv.Driver = gpuhost.Driver{KernelVersion: "535.104.05", VersionErr: errors.New("unknown error (code 999)")}
			},
		},
		{
			name: "MIG device without one of its capabilities (cases DRV-23)", gpus: []string{"MIG-c"}, recoverable: true,
			wantErr: `"MIG-c": device node "/dev/nvidia-caps/nvidia-cap2" is missing`,
			prepare: func(b *bench) { b.host.lacks = "nvidia-cap2" },
		},
		{
			name: "GPU count with shares (cases DRV-05)", gpus: []string{"GPU-a::0", "GPU-a::1"}, recoverable: true,
			change: func(o *config.Task) { two := 2; o.GPU.Count = &two }, wantErr: "shares of one GPU count once",
		},
		{
			name: "image needs a newer driver", gpus: []string{"GPU-a"}, wantErr: `needs CUDA 13.0; this node's driver 535.104.05 supports CUDA 12.2`,
			prepare: func(b *bench) {
				b.meta.absent = true
				b.meta.md = compat.Metadata{Labels: map[string]string{"com.nvidia.cuda.version": "13.0"}}
			},
		},
		{
			name: "GPU count", gpus: []string{"GPU-a"}, change: func(o *config.Task) { two := 2; o.GPU.Count = &two },
			wantErr: "requested 2 GPUs, got 1", recoverable: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			if tc.prepare != nil {
				tc.prepare(b)
			}
			cfg := b.task(tc.change, tc.gpus...)
			_, _, err := b.StartTask(cfg)
			must.ErrorContains(t, err, tc.wantErr)
			must.Eq(t, tc.recoverable, structs.IsRecoverable(err))
			must.SliceEmpty(t, b.engine.names())
			must.Eq(t, 0, b.images.inUse())
			must.False(t, b.driver.gpus.knows(cfg.ID))
			must.False(t, b.driver.tasks.Starting(cfg.ID))
			must.Eq(t, tc.created, b.engine.called("start") > 0)
			_, err = b.InspectTask(cfg.ID)
			must.ErrorContains(t, err, drivers.ErrTaskNotFound.Error())
		})
	}
}

func TestRefusalComesBeforeThePull(t *testing.T) {
	b := newBench(t, nil)
	b.meta.absent = true
	b.meta.md = compat.Metadata{Labels: map[string]string{"com.nvidia.cuda.version": "13.0"}}
	_, _, err := b.StartTask(b.task(nil, "GPU-a"))
	must.ErrorContains(t, err, "needs CUDA 13.0")
	must.Eq(t, 0, b.images.pulls)
	must.Eq(t, []string{"local registry.example/img:1", "remote registry.example/img:1"}, b.meta.asked)
	recent, total := b.driver.refusals.Refusals()
	must.Eq(t, 1, total)
	must.Eq(t, err.Error(), "rpc error: code = Unknown desc = "+recent[0].Reason)
}

func TestCheckAfterThePullWithoutRegistry(t *testing.T) {
	b := newBench(t, nil)
	b.meta.absent, b.meta.noRemote = true, errors.New("registry away")
	b.meta.md = compat.Metadata{Labels: map[string]string{"com.nvidia.cuda.version": "13.0"}}
	_, _, err := b.StartTask(b.task(nil, "GPU-a"))
	must.ErrorContains(t, err, "needs CUDA 13.0")
	must.Eq(t, 1, b.images.pulls)
	must.Eq(t, 0, b.engine.called("create"))
	must.Eq(t, 0, b.images.inUse())
}

func TestMovingTagsAskTheRegistry(t *testing.T) {
	for _, tc := range []struct {
		ref   string
		force bool
		first string
	}{
		{"img:1", false, "local img:1"},
		{"img:1", true, "remote img:1"},
		{"img", false, "remote img"},
		{"img:latest", false, "remote img:latest"},
	} {
		b := newBench(t, nil)
		b.start(b.task(func(o *config.Task) { o.Image, o.ForcePull = tc.ref, tc.force }, "GPU-a"))
		must.Eq(t, tc.first, b.meta.asked[0])
	}
}

func TestCreateRetries(t *testing.T) {
	t.Run("transient failures", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("create", errAway, internal("database is locked"))
		b.start(b.task(nil))
		must.Eq(t, 3, b.engine.called("create"))
	})
	t.Run("the image vanished", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("create", errNoImage)
		b.start(b.task(nil))
		must.Eq(t, 2, b.images.pulls)
		must.Eq(t, 1, b.images.inUse())
	})
	t.Run("the image vanished before it was read", func(t *testing.T) {
		b := newBench(t, nil)
		b.meta.absent = true
		b.start(b.task(nil))
		must.Eq(t, 2, b.images.pulls)
		must.Eq(t, 1, b.images.inUse())
	})
	t.Run("the image vanished and its tag moved", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.during = map[string]func(){"create": func() {
			b.meta.mu.Lock()
			defer b.meta.mu.Unlock()
			b.meta.md = compat.Metadata{Labels: map[string]string{"com.nvidia.cuda.version": "13.0"}}
		}}
		b.engine.fail("create", errNoImage)
		_, _, err := b.StartTask(b.task(nil, "GPU-a"))
		must.ErrorContains(t, err, "needs CUDA 13.0")
		must.Eq(t, 1, b.engine.called("create"))
		must.Eq(t, 0, b.images.inUse())
	})
	t.Run("the image never stays", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("create", slices.Repeat([]error{errNoImage}, transientTries+1)...)
		_, _, err := b.StartTask(b.task(nil))
		must.ErrorContains(t, err, "failed to create container: the image vanished from the engine: engine: No such image")
		must.True(t, structs.IsRecoverable(err))
		must.Eq(t, transientTries+1, b.images.pulls)
		must.Eq(t, 0, b.images.inUse())
	})
	t.Run("a fault of the request is final at once", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("create", fmt.Errorf("invalid volume specification: %w", errdefs.ErrInvalidArgument))
		_, _, err := b.StartTask(b.task(nil))
		must.Error(t, err)
		must.Eq(t, 1, b.engine.called("create"))
	})
	t.Run("a failed start of a container that runs all the same (cases DRV-09)", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", internal("context deadline exceeded while the task was made"))
		b.engine.during = map[string]func(){"started": func() {
			b.engine.mu.Lock()
			defer b.engine.mu.Unlock()
			c := b.engine.find("id-1")
			c.started, c.state = true, engineapi.State{Status: engineapi.StateRunning, Running: true, Pid: 1}
		}}
		cfg := b.task(nil, "GPU-a")
		id, _ := b.start(cfg)
		must.Eq(t, "id-1", id)
		must.Eq(t, 2, b.engine.called("start"))
		must.Eq(t, 1, b.engine.called("create"))
		must.Eq(t, 0, b.engine.called("remove"))
		b.engine.end(id, 3, false)
		must.Eq(t, 3, b.wait(cfg.ID).ExitCode)
	})
	t.Run("an id that the runtime still knows", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.fail("start", internal("OCI runtime create failed: container with id exists: permission denied"))
		b.start(b.task(nil))
		must.Eq(t, 2, b.engine.called("create"))
		must.Len(t, 1, b.engine.names())
	})
}

func TestNameConflicts(t *testing.T) {
	name := func(b *bench, cfg *drivers.TaskConfig) string {
		return container.Name(config.DefaultPlugin(), cfg)
	}
	t.Run("a dead one of ours is replaced", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		old := b.engine.put(name(b, cfg), map[string]string{container.LabelDriver: container.DriverName}, false, time.Now())
		id, _ := b.start(cfg)
		must.NotEq(t, old.id, id)
		must.Len(t, 1, b.engine.names())
	})
	t.Run("a running one of another start is replaced", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		old := b.engine.put(name(b, cfg), map[string]string{
			container.LabelDriver: container.DriverName, container.LabelSpecHash: "other",
		}, true, time.Now())
		id, _ := b.start(cfg)
		must.NotEq(t, old.id, id)
	})
	t.Run("a running one of this start is adopted", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		id, _ := b.start(cfg)
		b.driver.tasks.Forget(cfg.ID) // as after a crash of the plugin
		again, _ := b.start(cfg)
		must.Eq(t, id, again)
		must.Eq(t, 1, b.engine.called("start"))
		must.Eq(t, []string{"ship " + id, "ship " + id}, b.logs.log)
	})
	t.Run("one that cannot be removed", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(func(o *config.Task) { o.ContainerExistsAttempts = 2 })
		b.engine.put(name(b, cfg), map[string]string{container.LabelDriver: container.DriverName}, false, time.Now())
		b.engine.fail("remove", internal("device or resource busy"), internal("device or resource busy"))
		_, _, err := b.StartTask(cfg)
		must.ErrorContains(t, err, fmt.Sprintf("name %q is still taken after 2 attempts", name(b, cfg)))
		must.True(t, structs.IsRecoverable(err))
		must.Eq(t, 3, b.engine.called("create"))
	})
	t.Run("a foreign one is left alone", func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.task(nil)
		foreign := b.engine.put(name(b, cfg), nil, false, time.Now())
		_, _, err := b.StartTask(cfg)
		must.ErrorContains(t, err, "a container that is not ours has the name")
		must.Eq(t, []string{foreign.name}, b.engine.names())
	})
}

// TestStartOfAnAllocationThatIsGone: an agent cannot cancel a start; one whose
// allocation's directory vanishes ends by itself (task-driver ST-7, cases DRV-08).
func TestStartOfAnAllocationThatIsGone(t *testing.T) {
	b := newBench(t, nil)
	b.images.hang = make(chan struct{})
	cfg := b.task(nil, "GPU-a")
	must.NoError(t, os.MkdirAll(cfg.AllocDir, 0o755))
	ended := make(chan error, 1)
	go func() {
		_, _, err := b.StartTask(cfg)
		ended <- err
	}()
	<-b.images.hang
	must.NoError(t, os.RemoveAll(cfg.AllocDir))
	must.ErrorContains(t, <-ended, "context canceled")
	must.False(t, b.driver.gpus.knows(cfg.ID))
	must.False(t, b.driver.tasks.Starting(cfg.ID))
}

func TestStartTwice(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	b.start(cfg)
	_, _, err := b.StartTask(cfg)
	must.ErrorContains(t, err, fmt.Sprintf("task with ID %q already started", cfg.ID))
	must.Len(t, 1, b.engine.names())
}

// TestStartTwiceAtOnce: an id is claimed before anything else (task-driver ST-1).
func TestStartTwiceAtOnce(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil)
	asked, answer, first := make(chan struct{}), make(chan struct{}), make(chan error)
	b.engine.onNext("create", func() {
		close(asked)
		<-answer
	})
	go func() {
		_, _, err := b.StartTask(cfg)
		first <- err
	}()
	<-asked
	_, _, err := b.StartTask(cfg)
	must.ErrorContains(t, err, fmt.Sprintf("task with ID %q already started", cfg.ID))
	close(answer)
	must.NoError(t, <-first)
	must.Eq(t, 1, b.engine.called("create"))
}

// TestStartAnswersTheAddress: services are registered with what StartTask answers
// (task-driver NT-1, ST-4).
func TestStartAnswersTheAddress(t *testing.T) {
	for _, tc := range []struct {
		network string
		auto    bool
	}{{"bridge", false}, {"mine", true}} {
		t.Run(tc.network, func(t *testing.T) {
			b := newBench(t, nil)
			b.engine.networks = map[string]*network.EndpointSettings{tc.network: {IPAddress: "172.17.0.9"}}
			cfg := b.task(func(o *config.Task) { o.PortMap = map[string]int{"http": 80} })
			cfg.Resources.NomadResources.Networks = structs.Networks{{DynamicPorts: []structs.Port{{Label: "http", Value: 20080}}}}
			_, answer, err := b.StartTask(cfg)
			must.NoError(t, err)
			must.Eq(t, &drivers.DriverNetwork{PortMap: map[string]int{"http": 80}, IP: "172.17.0.9", AutoAdvertise: tc.auto}, answer)
		})
	}
}

// TestLogIsExpected: the engine's log is waited for before the container starts,
// where the engine writes files.
func TestLogIsExpected(t *testing.T) {
	for _, tc := range []struct {
		logging string
		want    int
	}{{"json-file", 1}, {"journald", 0}} {
		t.Run(tc.logging, func(t *testing.T) {
			b := newBench(t, nil)
			b.engine.info.DockerRootDir = "/engine"
			id, _ := b.start(b.task(func(o *config.Task) { o.Logging.Type = tc.logging }))
			must.Len(t, tc.want, b.logs.expected)
			for _, path := range b.logs.expected {
				must.Eq(t, "/engine/containers/"+id+"/"+id+"-json.log", path)
			}
		})
	}
}
