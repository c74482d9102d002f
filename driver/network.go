// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/driver/image"
)

const (
	// hostnameLabel is where the agent keeps the hostname of a group.
	hostnameLabel = "docker_sandbox_hostname"
	// pauseGrace is how long a pause container gets to end by itself.
	pauseGrace = time.Second
	// networkTries bounds the making of a pause container.
	networkTries = 5
)

// CreateNetwork makes the network namespace of an allocation: that of a pause
// container. The bool says that nobody has configured it, so that the agent does.
func (d *Driver) CreateNetwork(allocID string, request *drivers.NetworkCreateRequest) (*drivers.NetworkIsolationSpec, bool, error) {
	p, err := d.ready()
	if err != nil {
		return nil, false, err
	}
	hostname := ""
	if request != nil {
		hostname = request.Hostname
	}
	found, created, err := p.ensurePause(d.ctx, container.Pause(p.config, allocID, hostname, d.nodeID()), allocID)
	if err != nil {
		return nil, false, fmt.Errorf("failed to create the network of allocation %s: %w", allocID, err)
	}
	p.claimPause(found.ID)
	return isolationSpec(found, hostname), created, nil
}

// isolationSpec tells the agent where the namespace is.
func isolationSpec(found engineapi.InspectResponse, hostname string) *drivers.NetworkIsolationSpec {
	spec := &drivers.NetworkIsolationSpec{
		Mode:   drivers.NetIsolationModeGroup,
		Labels: map[string]string{sandboxLabel: found.ID},
	}
	if found.NetworkSettings != nil {
		spec.Path = found.NetworkSettings.SandboxKey
	}
	if hostname != "" {
		spec.Labels[hostnameLabel] = hostname
	}
	return spec
}

// ensurePause finds the running pause container or makes one. The bool is whether its
// namespace is to be configured. One that was found may need that too: an engine that
// was restarted gives it a new namespace, and an agent that died may never have come
// to configure it (task-driver PN-3).
func (p *parts) ensurePause(ctx context.Context, req *container.Request, allocID string) (engineapi.InspectResponse, bool, error) {
	found, err := p.engine.Inspect(ctx, req.Name)
	if err == nil && found.State != nil && found.State.Running {
		bare, err := bareNamespace(p.proc, found.State.Pid)
		if err != nil {
			p.logger.Warn("a group's network is taken for configured", "alloc_id", allocID, "error", err)
		}
		return found, bare, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return found, false, err
	}
	imageID, id, err := p.pauseOfImage(ctx, req, allocID)
	if imageID == "" {
		return found, false, err
	}
	if err == nil {
		err = p.engine.Start(ctx, id)
	}
	if err == nil {
		found, err = p.engine.Inspect(ctx, id)
	}
	if err != nil {
		if id != "" {
			p.removeForGood(ctx, id)
		}
		p.images.Release(imageID, allocID)
		return found, false, err
	}
	return found, true, nil
}

// pauseOfImage gets the pause image and creates the container, again if somebody
// removed the image in between (task-driver CX-5). Without an image there is no
// container; with one, the caller releases it if there is an error.
func (p *parts) pauseOfImage(ctx context.Context, req *container.Request, allocID string) (imageID, id string, err error) {
	for try := 1; ; try++ {
		if imageID, err = p.pauseImage(ctx, allocID); err != nil {
			return "", "", err
		}
		id, err = p.createPause(ctx, req)
		if !imageGone(err) || try >= networkTries {
			return imageID, id, err
		}
		p.images.Release(imageID, allocID)
	}
}

// pauseImage gets the pause image, counted under the allocation's id.
func (p *parts) pauseImage(ctx context.Context, allocID string) (string, error) {
	return p.images.Resolve(ctx, image.Request{
		Ref: p.config.InfraImage, Timeout: p.config.InfraImagePullTimeout, ActivityTimeout: p.config.PullActivityTimeout,
		Credentials: image.CredentialSource{
			ConfigFile: p.config.Auth.Config, Helper: p.config.Auth.Helper, SoftFail: true, Logger: p.logger,
		},
	}, image.Caller{ID: allocID})
}

// createPause creates the container and replaces a dead one of its name.
func (p *parts) createPause(ctx context.Context, req *container.Request) (string, error) {
	retry := retries()
	for try := 1; ; try++ {
		id, err := p.engine.Create(ctx, req)
		switch {
		case err == nil:
			return id, nil
		case try >= networkTries:
			return "", err
		case nameTaken(err):
			if err := p.engine.Remove(ctx, req.Name); err != nil && !errdefs.IsNotFound(err) {
				p.logger.Warn("could not remove a dead pause container", "name", req.Name, "error", err)
			}
		case !worthRetrying(err):
			return "", err
		}
		if err := retry.pause(ctx); err != nil {
			return "", err
		}
	}
}

// DestroyNetwork removes the pause container of an allocation; none is fine.
func (d *Driver) DestroyNetwork(allocID string, spec *drivers.NetworkIsolationSpec) error {
	p, err := d.ready()
	if err != nil {
		return err
	}
	id := ""
	if spec != nil {
		id = spec.Labels[sandboxLabel]
	}
	if id == "" {
		if id, err = p.findPause(d.ctx, allocID); err != nil || id == "" {
			return err
		}
	}
	if err := p.removePause(d.ctx, id, allocID); err != nil {
		return fmt.Errorf("failed to remove the network container %q of allocation %s: %w", id, allocID, err)
	}
	return nil
}

// findPause finds a pause container by its allocation; empty when there is none.
func (p *parts) findPause(ctx context.Context, allocID string) (string, error) {
	found, err := p.engine.List(ctx, true,
		container.LabelRole+"="+container.RolePause, container.LabelAllocID+"="+allocID)
	if err != nil {
		return "", fmt.Errorf("failed to look for the network container of allocation %s: %w", allocID, err)
	}
	if len(found) == 0 {
		return "", nil
	}
	return found[0].ID, nil
}

// removePause ends and removes a pause container. If this process dies in the
// middle of it, or the engine cannot, the reaper goes on.
func (p *parts) removePause(ctx context.Context, id, allocID string) error {
	found, err := p.engine.Inspect(ctx, id)
	if errdefs.IsNotFound(err) {
		p.dropPause(id)
		return nil
	}
	if err != nil {
		return err
	}
	p.state.Doom(id)
	if err := p.engine.Stop(ctx, id, "", pauseGrace); err != nil && !errdefs.IsNotFound(err) {
		p.logger.Warn("could not stop a pause container", "container_id", id, "error", err)
	}
	if err := p.engine.Remove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	p.state.Buried(id)
	p.dropPause(id)
	p.images.Release(found.Image, allocID)
	return nil
}
