// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// instance is one id that a task can hold: a GPU, a MIG device, or a share of
// either.
type instance struct {
	id        string // the UUID, with "::<share>" for a share
	uuid      string // of the GPU or MIG device
	gpu       *gpuhost.GPU
	mig       *gpuhost.MIGDevice // nil for a whole GPU
	unhealthy string             // empty if healthy
	goneSince time.Time          // when it was found missing; zero while it is there
}

// group is a device group in the making.
type group struct {
	name      string
	instances []*instance
}

// offer is what one message of the fingerprint stream says.
type offer struct {
	groups  []*group
	byID    map[string]*instance
	ignored map[string]string     // UUID to the option's id that hides it
	devices []*device.DeviceGroup // the message, groups by name
}

// makeOffer turns an inventory into an offer, of which finish then makes the
// message. mpsProblem is why MPS clients cannot be served, if they are to be.
func makeOffer(inventory *gpuhost.Inventory, s *settings, mpsProblem string) *offer {
	o := &offer{byID: make(map[string]*instance)}
	o.ignored, _ = matchIgnored(s.IgnoredGPUIDs, inventory)
	for i := range inventory.GPUs {
		o.addGPU(&inventory.GPUs[i], s, mpsProblem)
	}
	return o
}

// addGPU offers a GPU: its MIG devices if it is in MIG mode, else itself.
func (o *offer) addGPU(gpu *gpuhost.GPU, s *settings, mpsProblem string) {
	if _, hidden := o.ignored[gpu.UUID]; hidden {
		return
	}
	if !gpu.MIGEnabled {
		o.addShares(&instance{uuid: gpu.UUID, gpu: gpu, unhealthy: firstOf(gpu.Unhealthy, mpsProblem)}, s)
		return
	}
	if s.MIG == migOff {
		return
	}
	problem := ""
	if s.strategy == sharingMPS {
		problem = "MPS is not supported on a GPU in MIG mode; turn MIG off or use \"time-slicing\""
	}
	for m := range gpu.MIGDevices {
		mig := &gpu.MIGDevices[m]
		if _, hidden := o.ignored[mig.UUID]; !hidden {
			o.addShares(&instance{uuid: mig.UUID, gpu: gpu, mig: mig, unhealthy: firstOf(gpu.Unhealthy, problem)}, s)
		}
	}
}

// shareMark stands between a UUID and the number of a share.
const shareMark = "::"

// addShares offers one thing as often as the options say.
func (o *offer) addShares(whole *instance, s *settings) {
	if !s.shared() {
		whole.id = whole.uuid
		o.add(whole, s)
		return
	}
	for n := range s.replicas {
		share := *whole
		share.id = whole.uuid + shareMark + strconv.Itoa(n)
		o.add(&share, s)
	}
}

func (o *offer) add(i *instance, s *settings) { o.addTo(groupName(i, s), i) }

func (o *offer) addTo(name string, i *instance) {
	o.byID[i.id] = i
	at := slices.IndexFunc(o.groups, func(g *group) bool { return g.name == name })
	if at < 0 {
		o.groups = append(o.groups, &group{name: name})
		at = len(o.groups) - 1
	}
	o.groups[at].instances = append(o.groups[at].instances, i)
}

// nodeGroup is the name of the only group with group_by "node".
const nodeGroup = "gpu"

// groupName is the device name that jobs ask for.
func groupName(i *instance, s *settings) string {
	name := modelName(i)
	switch s.GroupBy {
	case groupByNode:
		name = nodeGroup
	case groupByInstance:
		name += " " + shortUUID(i.uuid)
	}
	if s.shared() && s.Sharing.RenameByDefault {
		name += ".shared"
	}
	return name
}

func modelName(i *instance) string {
	name := "unknown"
	if i.gpu.Model != nil {
		name = *i.gpu.Model
	}
	if i.mig != nil {
		name += " MIG " + i.mig.Profile
	}
	return name
}

// shortUUID is the first block of a UUID, "1ab7d8d0" of "GPU-1ab7d8d0-…". Drivers
// before 470 name a MIG device by its GPU and instances, "MIG-GPU-1ab7d8d0-…/1/0",
// of which the latter are kept: "1ab7d8d0/1/0".
func shortUUID(uuid string) string {
	rest, old := strings.CutPrefix(uuid, "MIG-GPU-")
	if !old {
		_, after, found := strings.Cut(uuid, "-")
		if !found {
			return uuid
		}
		rest = after
	}
	block, _, _ := strings.Cut(rest, "-")
	if _, instances, found := strings.Cut(rest, "/"); found {
		block += "/" + instances
	}
	return block
}

// distribute puts the instances of a group in turns, one of each GPU after the
// other; they come GPU by GPU.
func (g *group) distribute() {
	turn := make(map[*instance]int, len(g.instances))
	count := make(map[string]int)
	for _, i := range g.instances {
		turn[i] = count[i.gpu.UUID]
		count[i.gpu.UUID]++
	}
	slices.SortStableFunc(g.instances, func(a, b *instance) int { return cmp.Compare(turn[a], turn[b]) })
}

// finish builds the message, once. Groups are sorted by name, instances are in the
// order of the PCI bus, GPU by GPU or in turns (cases DEV-31).
func (o *offer) finish(inventory *gpuhost.Inventory, s *settings) {
	slices.SortFunc(o.groups, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	for _, g := range o.groups {
		if s.AllocationPolicy == policyDistributed {
			g.distribute()
		}
		dg := &device.DeviceGroup{
			Vendor: vendor, Type: deviceType, Name: g.name, Attributes: attributes(g, inventory, s),
		}
		for _, i := range g.instances {
			dg.Devices = append(dg.Devices, &device.Device{
				ID: i.id, Healthy: i.unhealthy == "", HealthDesc: i.unhealthy,
				HwLocality: &device.DeviceLocality{PciBusID: i.gpu.PCIBusID},
			})
		}
		o.devices = append(o.devices, dg)
	}
}

// same says whether two offers give the same message.
func (o *offer) same(other *offer) bool { return reflect.DeepEqual(o.devices, other.devices) }

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
