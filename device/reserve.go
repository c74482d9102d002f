// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// visibleDevices tells a container's NVIDIA libraries and runtimes which GPUs are
// the task's.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES"

// reservedIDs tells the task driver gpu-docker which shares of a GPU are the
// task's: the UUIDs alone look as if one GPU were held twice.
const reservedIDs = "GPU_DOCKER_RESERVED_IDS"

// nodePermissions let a task open its nodes, not make others.
const nodePermissions = "rw"

// Reserve tells how a task gets at the devices with these ids: the device nodes
// of exactly those GPUs, the control nodes that exist, and the environment. An id
// that is not offered now, or is unhealthy, is an error that names it.
func (p *Plugin) Reserve(ids []string) (*device.ContainerReservation, error) {
	if len(ids) == 0 {
		return &device.ContainerReservation{}, nil
	}
	h, s, err := p.start()
	if err != nil {
		return nil, err
	}
	if len(ids) > 1 && s.shared() && s.Sharing.FailRequestsGreaterThanOne {
		return nil, fmt.Errorf("%d shares of GPUs are requested, and sharing.fail_requests_greater_than_one allows one, as several may be of the same GPU; set count = 1 in the task's device block", len(ids))
	}
	inventory := h.Inventory(context.Background())
	o := makeOffer(inventory, s, mpsProblem(s))
	r := &reservation{host: h, settings: s}
	var faults []error
	for _, id := range ids {
		i, err := o.find(id, inventory)
		if err == nil {
			err = r.add(i)
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p.hold(ids...)
	c := r.container()
	if s.strategy != sharingNone {
		c.Envs[reservedIDs] = strings.Join(ids, ",")
	}
	return c, nil
}

// find looks an id up; the error says why it cannot be had.
func (o *offer) find(id string, inventory *gpuhost.Inventory) (*instance, error) {
	uuid, _, _ := strings.Cut(id, shareMark)
	if option, hidden := o.ignored[uuid]; hidden {
		return nil, fmt.Errorf("device %q is not offered: \"ignored_gpu_ids\" has %q", id, option)
	}
	i := o.byID[id]
	if i == nil {
		return nil, fmt.Errorf("device %q is unknown on this node%s", id, o.known(inventory))
	}
	if i.unhealthy != "" {
		return nil, fmt.Errorf("device %q is unhealthy: %s", id, i.unhealthy)
	}
	return i, nil
}

// known ends the sentence about an unknown id.
func (o *offer) known(inventory *gpuhost.Inventory) string {
	if inventory.Reason != "" {
		return ": " + inventory.Reason
	}
	var ids []string
	for _, g := range o.groups {
		for _, i := range g.instances {
			ids = append(ids, i.id)
		}
	}
	if len(ids) == 0 {
		return ", which offers none"
	}
	return "; it offers " + strings.Join(ids, ", ")
}

// reservation collects what the ids of one task need. What several ids share is
// there once (cases DEV-29).
type reservation struct {
	host     host
	settings *settings
	uuids    []string       // in the order of the ids
	shares   map[string]int // how many shares of each UUID
	held     []*instance    // one of each UUID
	nodes    []gpuhost.DeviceNode
}

func (r *reservation) add(i *instance) error {
	if r.shares == nil {
		r.shares = make(map[string]int)
	}
	r.shares[i.uuid]++
	if r.shares[i.uuid] > 1 {
		return nil
	}
	node, err := r.host.GPUNode(i.gpu)
	if err != nil {
		return fmt.Errorf("device %q: %w", i.id, err)
	}
	nodes := []gpuhost.DeviceNode{node}
	if i.mig != nil {
		capabilities, err := r.host.MIGNodes(i.gpu, i.mig)
		if err != nil {
			return fmt.Errorf("device %q: %w", i.id, err)
		}
		nodes = append(nodes, capabilities...)
	}
	for _, node := range nodes {
		if !slices.Contains(r.nodes, node) {
			r.nodes = append(r.nodes, node)
		}
	}
	r.uuids = append(r.uuids, i.uuid)
	r.held = append(r.held, i)
	return nil
}

// container is the reservation as Nomad hands it to the task's driver.
func (r *reservation) container() *device.ContainerReservation {
	c := &device.ContainerReservation{Envs: map[string]string{visibleDevices: strings.Join(r.uuids, ",")}}
	for _, node := range append(r.nodes, r.host.ControlNodes()...) {
		c.Devices = append(c.Devices, &device.DeviceSpec{
			HostPath: node.HostPath, TaskPath: node.ContainerPath, CgroupPerms: nodePermissions,
		})
	}
	if r.settings.strategy == sharingMPS {
		r.addMPS(c)
	}
	return c
}
