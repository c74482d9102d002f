// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/driver/logship"
	"github.com/gpu-docker/gpu-docker/imagemeta"
)

// allocCheck is how often a start looks whether its allocation still exists.
const allocCheck = 2 * time.Second

// starting is one StartTask in progress: what the steps have found so far.
type starting struct {
	d      *Driver
	p      *parts
	cfg    *drivers.TaskConfig
	ctx    context.Context
	undone []func()

	options  *config.Task
	grant    *grant
	policy   compat.Policy    // for the task; set when it has GPUs
	judged   *imagemeta.Image // what decision is about; nil while no image was judged
	decision *compat.Decision // nil likewise
	imageID  string
	local    *imagemeta.Image // metadata of the image on the engine; nil before it is there
	// loaderEnv makes the Vulkan, EGL and OpenCL loaders find the driver's files in
	// the volume; nil before the volume is there.
	loaderEnv map[string]string
	libraries map[string]string // of the volume, if the task wants them singly
	imageEnv  []string          // KEY=VALUE; nil before the image is known
	request   *container.Request
	id        string         // of the container
	ahead     *logship.Ahead // its log from the first line on; may be nil
	found     engineapi.InspectResponse
	state     *taskState
	foreign   []int // processes that were on the task's GPUs before it
}

// StartTask starts a task and returns when its container runs.
func (d *Driver) StartTask(cfg *drivers.TaskConfig) (*drivers.TaskHandle, *drivers.DriverNetwork, error) {
	begun := time.Now()
	p, err := d.ready()
	if err != nil {
		releaseLogs(cfg)
		return nil, nil, forNomad(recoverable(err))
	}
	if err := d.tasks.Reserve(cfg.ID); err != nil {
		return nil, nil, err
	}
	defer d.tasks.Release(cfg.ID)
	cfg = cfg.Copy()
	d.noteNode(cfg)
	defer d.tasks.Turn(cfg)()
	defer d.supersede(p, cfg)()
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	if _, err := os.Stat(cfg.AllocDir); err == nil { // looked at before anything else can happen to it
		go d.cancelWhenGone(ctx, cancel, cfg.AllocDir)
	}

	s := &starting{d: d, p: p, cfg: cfg, ctx: ctx}
	handle, err := s.run()
	if err != nil {
		s.rollBack()
		releaseLogs(cfg)
		d.logger.Error("task did not start", "task_id", cfg.ID, "took", elapsed(begun), "error", err)
		return nil, nil, forNomad(err)
	}
	d.logger.Info("task started", "task_id", cfg.ID, "container_id", s.id, "gpus", s.grant.IDs, "took", elapsed(begun))
	return handle, s.state.network(), nil
}

// run does the steps in order. Everything that the job can have wrong shows
// before the registry is asked (task-driver ST-3).
func (s *starting) run() (*drivers.TaskHandle, error) {
	err := inOrder(
		s.decode,
		s.checkNetwork,
		s.reserveGPUs,
		s.assemble,
		s.admitEarly,
		s.useImage,
		s.inspect,
		s.pinCPUs,
		s.describe,
	)
	if err != nil {
		return nil, err
	}
	return s.register()
}

// useImage gets the image and runs a container of it. When the image vanishes in
// between, because somebody else cleans up, all of it is done again: what is pulled
// then may be another image of the same name (task-driver CX-5).
func (s *starting) useImage() error {
	before := len(s.undone)
	for try := 1; ; try++ {
		err := inOrder(
			s.resolveImage,
			s.readImage,
			s.admit,
			s.prepareNodes,
			s.prepareVolume,
			s.assemble,
			s.writeFiles,
			s.createAndStart,
		)
		if !errors.Is(err, errImageVanished) || try > transientTries {
			return err
		}
		s.d.logger.Warn("getting an image again", "task_id", s.cfg.ID, "image", s.options.Image, "error", err)
		s.rollBackTo(before)
	}
}

// inOrder does steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// undo adds what takes a step back if a later one fails.
func (s *starting) undo(f func()) { s.undone = append(s.undone, f) }

// rollBack takes the finished steps back, the last one first.
func (s *starting) rollBack() { s.rollBackTo(0) }

// rollBackTo leaves the first steps as they are.
func (s *starting) rollBackTo(n int) {
	for i := len(s.undone) - 1; i >= n; i-- {
		s.undone[i]()
	}
	s.undone = s.undone[:n]
}

// tell emits a task event.
func (s *starting) tell(message string) { s.d.events.Emit(s.cfg, message, nil) }

func (s *starting) decode() error {
	options, err := config.DecodeTask(s.cfg)
	if err != nil {
		return err
	}
	s.options = options
	return nil
}

// inspect looks at the running container.
func (s *starting) inspect() error {
	found, err := s.p.engine.Inspect(s.ctx, s.id)
	if err != nil {
		return recoverable(fmt.Errorf("failed to inspect container %q after its start: %w", s.id, err))
	}
	s.found = found
	return nil
}

// describe makes the state that Nomad keeps.
func (s *starting) describe() error {
	address, err := findAddress(s.found.NetworkSettings, s.options.AdvertiseIPv6Address)
	if err != nil {
		return err
	}
	if len(address.others) > 0 {
		s.d.logger.Warn("task has several networks", "task_id", s.cfg.ID, "used", address.network, "others", address.others)
	}
	s.state = &taskState{
		ContainerID: s.id, Image: s.options.Image, ImageID: s.imageID,
		StartedAt: time.Now().UnixNano(),
		GPUs:      s.grant.IDs, NVIDIADriver: s.grant.Driver.Version,
		Foreign:     s.foreign,
		OnUnhealthy: s.options.GPU.OnUnhealthy,
		TTY:         s.options.TTY, CPUSetByUser: s.options.CpusetCPUs != "",
		NodeMHz: nodeMHz(s.cfg),
		PortMap: s.options.PortMap, IP: address.ip, AutoAdvertise: address.auto,
		LogsMaxFiles: s.options.Logs.MaxFiles, LogsMaxFileSizeMiB: s.options.Logs.MaxFileSizeMiB,
	}
	return nil
}

// register starts the log collection and hands the task over to its watcher.
func (s *starting) register() (*drivers.TaskHandle, error) {
	handle, err := encodeHandle(s.cfg, s.state)
	if err != nil {
		return nil, err
	}
	t := newTask(s.d.ctx, s.cfg, s.state)
	logs, err := s.p.logs.Ship(s.cfg, s.state, s.ahead)
	if err != nil {
		t.cancel()
		return nil, recoverable(fmt.Errorf("failed to start the log collection: %w", err))
	}
	t.setShipping(logs)
	s.d.look(s.p, t)
	return handle, nil
}

// look puts a task into the table and starts its watcher.
func (d *Driver) look(p *parts, t *task) {
	d.tasks.Put(t)
	d.ooms.Claim(t)
	p.ledger.Begin(t.cfg.ID, t.allocations())
	d.watchers.Go(func() { d.watch(p, t) })
	if cgroupV2() {
		d.watchers.Go(func() { d.attachCgroup(p, t) })
	}
}

// nodeMHz is the node's CPU capacity, which only a task tells (task-driver GR-11).
func nodeMHz(cfg *drivers.TaskConfig) float64 {
	if cfg.Resources == nil || cfg.Resources.LinuxResources == nil || cfg.Resources.LinuxResources.PercentTicks <= 0 {
		return 0
	}
	r := cfg.Resources.LinuxResources
	return float64(r.CPUShares) / r.PercentTicks
}

// cancelWhenGone ends a start whose allocation directory, which was there, vanishes: the agent
// cannot cancel it and nobody waits for it any more (task-driver ST-7).
func (d *Driver) cancelWhenGone(ctx context.Context, cancel context.CancelFunc, dir string) {
	defer d.guard("watching the allocation directory")
	tick := time.NewTicker(allocCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := os.Stat(dir); os.IsNotExist(err) {
				cancel()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
