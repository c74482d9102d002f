// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	engineapi "github.com/docker/docker/api/types/container"

	"github.com/gpu-docker/gpu-docker/driver/container"
)

const (
	// reapLimit is the least time that one pass may take (task-driver DG-3).
	reapLimit = 30 * time.Second
	// doomedPeriod is how often removals that failed are tried again.
	doomedPeriod = time.Minute
)

// reap looks for containers that nobody owns until ctx ends.
func (d *Driver) reap(ctx context.Context, p *parts) {
	dangling := p.config.GC.Dangling
	next := time.NewTimer(max(dangling.Period, dangling.CreationGrace))
	defer next.Stop()
	bury := time.NewTicker(doomedPeriod)
	defer bury.Stop()
	failing := false
	p.state.Open()
	p.bury(ctx) // what a process that died left
	for {
		select {
		case <-ctx.Done():
			return
		case <-bury.C:
			p.state.Open()
			p.bury(ctx)
			d.buryEnded(ctx, p)
			p.forgetPauses(ctx)
			d.cleanVolumes(ctx, p)
		case <-p.volumeLeft:
			d.cleanVolumes(ctx, p)
		case <-next.C:
			failing = d.reapIfWanted(ctx, p, failing)
			next.Reset(dangling.Period)
		}
	}
}

// reapIfWanted looks for dangling containers if the option says so and the engine
// answers, and returns whether that fails now; only the first failure is told.
func (d *Driver) reapIfWanted(ctx context.Context, p *parts, failing bool) bool {
	if !p.config.GC.Dangling.Enabled || !d.healthy.Load() {
		return failing
	}
	err := d.reapOnce(ctx, p, time.Now())
	if err != nil && !failing {
		d.logger.Error("looking for dangling containers failed", "error", err)
	}
	return err != nil
}

// bury removes containers whose removal failed before.
func (p *parts) bury(ctx context.Context) {
	for _, id := range p.state.Doomed() {
		err := p.engine.Remove(ctx, id)
		if err != nil && !errdefs.IsNotFound(err) {
			p.logger.Debug("container still cannot be removed", "container_id", id, "error", err)
			continue
		}
		p.state.Buried(id)
	}
}

// buryEnded removes stopped containers of tasks that nobody destroyed: the process
// that was to do it died. It runs some time after the start, when the agent has had
// its tasks recovered.
func (d *Driver) buryEnded(ctx context.Context, p *parts) {
	if !p.config.GC.Container {
		return
	}
	for _, id := range p.state.Ended() {
		if d.owned(id) {
			continue
		}
		found, err := p.engine.Inspect(ctx, id)
		switch {
		case errdefs.IsNotFound(err):
			p.state.Buried(id)
		case err != nil || found.State == nil || found.State.Running:
			// One that runs is a matter of reapOnce.
		default:
			p.logger.Info("removing the container of an ended task that nobody removed", "container_id", id)
			p.removeForGood(ctx, id)
		}
	}
}

// forgetPauses drops what is remembered of pause containers whose allocation is gone:
// of those that are gone too, and of another driver's, which we never remove.
func (p *parts) forgetPauses(ctx context.Context) {
	for id, dir := range p.state.Pauses() {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			continue
		}
		found, err := p.engine.Inspect(ctx, id)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil || found.Config == nil || found.Config.Labels[container.LabelRole] == container.RolePause:
			continue // for leaked to judge
		}
		p.dropPause(id)
	}
}

// owned says whether a task of this process has the container.
func (d *Driver) owned(id string) bool {
	return slices.ContainsFunc(d.tasks.All(), func(t *task) bool { return t.state.ContainerID == id })
}

// reapOnce removes running containers of ours that no task of this process owns,
// and leaked pause containers. Stopped ones are kept (task-driver DG-2), but not
// those that never ran: the process that made them died before it could start them.
func (d *Driver) reapOnce(ctx context.Context, p *parts, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, max(p.config.GC.Dangling.Period, reapLimit))
	defer cancel()
	all, err := p.engine.List(ctx, true, container.LabelDriver+"="+container.DriverName)
	if err != nil {
		return err
	}
	running := slices.DeleteFunc(all, func(c engineapi.Summary) bool {
		return c.State == engineapi.StateExited || c.State == engineapi.StateDead || c.State == engineapi.StateRemoving
	})
	before := now.Add(-p.config.GC.Dangling.CreationGrace)
	for _, c := range running {
		if time.Unix(c.Created, 0).After(before) {
			continue
		}
		switch c.Labels[container.LabelRole] {
		case container.RoleTask:
			if d.dangling(c) {
				p.reapContainer(ctx, c.ID, "task "+c.Labels[container.LabelTaskID])
			}
		case container.RolePause:
			if d.leaked(p, c, running) {
				p.reapContainer(ctx, c.ID, "network of allocation "+c.Labels[container.LabelAllocID])
			}
		}
	}
	return nil
}

// dangling: a task container of this node that no task here owns. Which node
// this is only tasks tell; before the first one nothing is touched. Nor is what a
// person runs from an image that was made of a task's container: that has its labels.
func (d *Driver) dangling(c engineapi.Summary) bool {
	node := d.nodeID()
	if node == "" || c.Labels[container.LabelNodeID] != node {
		return false
	}
	return ownName(c) && !d.owned(c.ID) && !d.tasks.Starting(c.Labels[container.LabelTaskID])
}

// ownName says whether a container has the name that its labels give it.
func ownName(c engineapi.Summary) bool {
	return slices.ContainsFunc(c.Names, func(name string) bool {
		return container.NamedAsLabelled(strings.TrimPrefix(name, "/"), c.Labels)
	})
}

// leaked: a pause container that nobody has named since the plugin started, whose
// allocation directory is gone and that no container of its allocation uses
// (task-driver PN-9). One that never ran serves nobody. One whose directory we
// cannot tell stays.
func (d *Driver) leaked(p *parts, c engineapi.Summary, running []engineapi.Summary) bool {
	if node := c.Labels[container.LabelNodeID]; p.pauseClaimed(c.ID) || node != "" && node != d.nodeID() {
		return false
	}
	if c.State == engineapi.StateCreated {
		return true
	}
	dir := d.allocDirOf(p, c)
	if dir == "" {
		return false
	}
	for _, other := range running {
		if other.ID != c.ID && other.Labels[container.LabelAllocID] == c.Labels[container.LabelAllocID] {
			return false
		}
	}
	_, err := os.Stat(dir)
	return os.IsNotExist(err)
}

// allocDirOf is the directory of the allocation that a pause container serves: as
// a task told, or where this node's agent has all of them. Empty when neither is
// known.
func (d *Driver) allocDirOf(p *parts, c engineapi.Summary) string {
	if dir := p.state.Pauses()[c.ID]; dir != "" {
		return dir
	}
	alloc := c.Labels[container.LabelAllocID]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.node == "" || c.Labels[container.LabelNodeID] != d.node || d.allocRoot == "" || alloc == "" {
		return ""
	}
	return filepath.Join(d.allocRoot, alloc)
}

// reapContainer removes a container or, in a dry run, says that it would.
func (p *parts) reapContainer(ctx context.Context, id, what string) {
	if p.config.GC.Dangling.DryRun {
		p.logger.Info("dangling container would be removed", "container_id", id, "of", what)
		return
	}
	p.logger.Info("removing dangling container", "container_id", id, "of", what)
	if err := p.engine.Remove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		p.logger.Error("could not remove dangling container", "container_id", id, "error", err)
		return
	}
	p.dropPause(id)
}
