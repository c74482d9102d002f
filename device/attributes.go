// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"cmp"

	"github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// The names of the attributes, the first nine those of nomad-device-nvidia.
const (
	attrMemory            = "memory"
	attrPower             = "power"
	attrBAR1              = "bar1"
	attrDriverVersion     = "driver_version"
	attrCoresClock        = "cores_clock"
	attrMemoryClock       = "memory_clock"
	attrPCIBandwidth      = "pci_bandwidth"
	attrDisplayState      = "display_state"
	attrPersistenceMode   = "persistence_mode"
	attrCUDAVersion       = "cuda_version"
	attrComputeCapability = "compute_capability"
	attrArchitecture      = "architecture"
	attrBrand             = "brand"
	attrMIGProfile        = "mig_profile"
	attrNUMANode          = "numa_node"
	attrECC               = "ecc"
	attrCores             = "cores"
	attrUnifiedMemory     = "unified_memory"
	attrShared            = "shared"
	attrReplicas          = "replicas"
	attrUUID              = "uuid"
	attrIndex             = "index"
	attrMinor             = "minor"
	attrPCIBusID          = "pci_bus_id"
)

type attributeMap = map[string]*structs.Attribute

// attributes are what the instances of a group have in common. A value on which
// they differ is absent: a constraint must never rest on what holds for another
// card. In a group of all cards of the node, what can be more or less is that of
// the weakest one instead (cases DEV-24). Cards that are out of order do not count
// if others are there.
func attributes(g *group, inventory *gpuhost.Inventory, s *settings) attributeMap {
	counted := make([]*instance, 0, len(g.instances))
	for _, i := range g.instances {
		if i.gpu.Unhealthy == "" && !i.gone() {
			counted = append(counted, i)
		}
	}
	if len(counted) == 0 {
		counted = g.instances
	}
	common := instanceAttributes(counted[0], s)
	for _, i := range counted[1:] {
		other := instanceAttributes(i, s)
		for name, value := range common {
			if equal(value, other[name]) {
				continue
			}
			var shared *structs.Attribute
			if s.GroupBy == groupByNode && name != attrNUMANode {
				shared = lesser(value, other[name])
			}
			if common[name] = shared; shared == nil {
				delete(common, name)
			}
		}
	}
	if s.GroupBy == groupByNode {
		set(common, attrComputeCapability, leastCapability(counted))
	}
	set(common, attrDriverVersion, text(inventory.Driver.Version))
	set(common, attrCUDAVersion, text(inventory.Driver.CUDA.String()))
	if s.shared() {
		common[attrShared] = structs.NewBoolAttribute(true)
		common[attrReplicas] = structs.NewIntAttribute(int64(s.replicas), "")
	}
	return common
}

// instanceAttributes are the attributes of one GPU or MIG device. What belongs
// to a whole GPU is not said of a slice.
func instanceAttributes(i *instance, s *settings) attributeMap {
	gpu, a := i.gpu, attributeMap{}
	set(a, attrCoresClock, amount(gpu.MaxSMClockMHz, structs.UnitMHz))
	set(a, attrMemoryClock, amount(gpu.MaxMemoryClockMHz, structs.UnitMHz))
	set(a, attrPCIBandwidth, amount(gpu.PCIeBandwidthMBps, structs.UnitMBPerS))
	set(a, attrDisplayState, state(gpu.DisplayActive))
	set(a, attrPersistenceMode, state(gpu.PersistenceMode))
	set(a, attrArchitecture, word(gpu.Architecture))
	set(a, attrBrand, word(gpu.Brand))
	set(a, attrECC, truth(gpu.ECCEnabled))
	if gpu.ComputeCapability != nil {
		set(a, attrComputeCapability, text(gpu.ComputeCapability.String()))
	}
	if gpu.NUMANode != nil {
		a[attrNUMANode] = structs.NewIntAttribute(int64(*gpu.NUMANode), "")
	}
	if i.mig != nil {
		set(a, attrMemory, mebibytes(i.mig.TotalBytes))
		set(a, attrMIGProfile, text(i.mig.Profile))
	} else {
		set(a, attrMemory, mebibytes(gpu.TotalBytes))
		set(a, attrBAR1, mebibytes(gpu.BAR1TotalBytes))
		set(a, attrPower, watts(gpu.PowerLimitMilliwatts))
		set(a, attrCores, amount(gpu.Cores, ""))
	}
	if gpu.UnifiedMemory {
		a[attrUnifiedMemory] = structs.NewBoolAttribute(true)
	}
	if s.GroupBy == groupByInstance {
		set(a, attrUUID, text(i.uuid))
		a[attrIndex] = structs.NewIntAttribute(int64(gpu.Index), "")
		a[attrMinor] = structs.NewIntAttribute(int64(gpu.Minor), "")
		set(a, attrPCIBusID, text(gpu.PCIBusID))
	}
	return a
}

// set sets an attribute unless there is no value.
func set(a attributeMap, name string, value *structs.Attribute) {
	if value != nil {
		a[name] = value
	}
}

func amount(n *uint64, unit string) *structs.Attribute {
	if n == nil {
		return nil
	}
	return structs.NewIntAttribute(int64(*n), unit)
}

func mebibytes(bytes *uint64) *structs.Attribute {
	if bytes == nil {
		return nil
	}
	return structs.NewIntAttribute(int64(*bytes>>20), structs.UnitMiB)
}

func watts(milliwatts *uint64) *structs.Attribute {
	if milliwatts == nil {
		return nil
	}
	return structs.NewIntAttribute(int64(*milliwatts/1000), structs.UnitW)
}

func truth(on *bool) *structs.Attribute {
	if on == nil {
		return nil
	}
	return structs.NewBoolAttribute(*on)
}

// state words a switch as nomad-device-nvidia does.
func state(on *bool) *structs.Attribute {
	switch {
	case on == nil:
		return nil
	case *on:
		return structs.NewStringAttribute("Enabled")
	}
	return structs.NewStringAttribute("Disabled")
}

func word(s *string) *structs.Attribute {
	if s == nil {
		return nil
	}
	return text(*s)
}

func text(s string) *structs.Attribute {
	if s == "" {
		return nil
	}
	return structs.NewStringAttribute(s)
}

// leastCapability is the lowest compute capability; nil if one card does not tell.
func leastCapability(instances []*instance) *structs.Attribute {
	least := instances[0].gpu.ComputeCapability
	for _, i := range instances {
		c := i.gpu.ComputeCapability
		if c == nil {
			return nil
		}
		if cmp.Or(cmp.Compare(c.Major, least.Major), cmp.Compare(c.Minor, least.Minor)) < 0 {
			least = c
		}
	}
	return text(least.String())
}

// lesser is the smaller one of two numbers; nil if they are none.
func lesser(a, b *structs.Attribute) *structs.Attribute {
	if b == nil || a.Int == nil || b.Int == nil {
		return nil
	}
	if result, comparable := a.Compare(b); comparable && result > 0 {
		return b
	}
	return a
}

func equal(a, b *structs.Attribute) bool {
	if a == nil || b == nil {
		return false
	}
	result, comparable := a.Compare(b)
	return comparable && result == 0
}
