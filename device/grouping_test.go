// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"
)

// TestGroupByNode: two models are one group, with the values of the weaker one
// (cases DEV-24).
func TestGroupByNode(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "mixed")
	models := fingerprint(t, testPlugin(t, sim)).until(withUsable(4))
	must.Len(t, 2, models)
	groups := fingerprint(t, testPlugin(t, sim, func(c *Config) { c.GroupBy = groupByNode })).until(withUsable(4))
	must.Len(t, 1, groups)
	must.Eq(t, "gpu", groups[0].Name)
	must.NoError(t, groups[0].Validate())
	got := groups[0].Attributes
	for _, name := range []string{"memory", "power", "cores", "cores_clock", "memory_clock", "pci_bandwidth", "bar1"} {
		a, b := models[0].Attributes[name], models[1].Attributes[name]
		must.NotNil(t, a, must.Sprint(name))
		must.NotNil(t, b, must.Sprint(name))
		want := a
		if *b.Int < *a.Int {
			want = b
		}
		must.Eq(t, want, got[name], must.Sprint(name))
	}
	must.Eq(t, str("7.5"), got["compute_capability"]) // T4, beside 8.6
	must.Eq(t, models[0].Attributes["driver_version"], got["driver_version"])
	must.MapNotContainsKeys(t, got, []string{"architecture", "numa_node", "ecc", "uuid"})
}

// TestGroupByNode_slices: MIG devices and whole GPUs are one group as well.
func TestGroupByNode_slices(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "a100-mig-535"), func(c *Config) { c.GroupBy = groupByNode })
	groups := fingerprint(t, p).until(withUsable(12))
	must.Eq(t, map[string]int{"gpu": 12}, groupSizes(groups))
	must.Less(t, 6000, *groups[0].Attributes["memory"].Int)
	must.MapNotContainsKeys(t, groups[0].Attributes, []string{"cores", "power", "mig_profile"})
}

// TestLeastCapability: versions are compared as such, and one that is not told
// makes the least one unknown.
func TestLeastCapability(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "mixed"))
	fingerprint(t, p).until(withUsable(4))
	var all []*instance
	for i := range p.host.Inventory(t.Context()).GPUs {
		gpu := p.host.Inventory(t.Context()).GPUs[i]
		capability := *gpu.ComputeCapability
		capability.Major += 3 * i // 7.5, 11.6, 13.5, 17.6
		gpu.ComputeCapability = &capability
		all = append(all, &instance{gpu: &gpu})
	}
	must.Eq(t, str("7.5"), leastCapability(all))
	must.Eq(t, str("11.6"), leastCapability([]*instance{all[3], all[1], all[2]}))
	all[2].gpu.ComputeCapability = nil
	must.Nil(t, leastCapability(all))
}

// parents are the numbers of the GPUs of a group's devices, in their order.
func parents(g *device.DeviceGroup) string {
	seen := map[string]string{}
	var order strings.Builder
	for _, d := range g.Devices {
		at := d.HwLocality.PciBusID
		if seen[at] == "" {
			seen[at] = string(rune('0' + len(seen)))
		}
		order.WriteString(seen[at])
	}
	return order.String()
}

// TestAllocationPolicy: shares and MIG devices come GPU by GPU or in turns, always
// in the same order (cases DEV-31).
func TestAllocationPolicy(t *testing.T) {
	t.Parallel()
	k80, mig := simulated(t, "k80x4-352"), simulated(t, "a100-mig-535")
	shared := func(c *Config) { c.Sharing = &SharingConfig{Strategy: sharingTime, Replicas: 3} }
	distributed := func(c *Config) { c.AllocationPolicy = policyDistributed }
	slices := func(groups []*device.DeviceGroup) *device.DeviceGroup {
		for _, g := range groups {
			if strings.HasSuffix(g.Name, " MIG 1g.5gb") {
				return g
			}
		}
		t.Fatal("no slices")
		return nil
	}
	for range 2 { // restarted
		must.Eq(t, "000111222333", parents(fingerprint(t, testPlugin(t, k80, shared)).until(withUsable(12))[0]))
		must.Eq(t, "012301230123", parents(fingerprint(t, testPlugin(t, k80, shared, distributed)).until(withUsable(12))[0]))
		packed := parents(slices(fingerprint(t, testPlugin(t, mig)).until(withUsable(12))))
		turns := parents(slices(fingerprint(t, testPlugin(t, mig, distributed)).until(withUsable(12))))
		must.Eq(t, 8, len(packed))
		must.Eq(t, 1, strings.Count(packed, "01")+strings.Count(packed, "10"), must.Sprint(packed))
		must.StrHasPrefix(t, "01", turns)
	}
}

// TestSharing_options: shares have a name of their own, and a task gets one
// (cases DEV-29).
func TestSharing_options(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "k80x4-352"), func(c *Config) {
		c.Sharing = &SharingConfig{Strategy: sharingTime, Replicas: 2, RenameByDefault: true, FailRequestsGreaterThanOne: true}
	})
	groups := fingerprint(t, p).until(withUsable(8))
	must.Eq(t, map[string]int{"Tesla K80.shared": 8}, groupSizes(groups))
	_, err := p.Reserve([]string{k80first + "::0"})
	must.NoError(t, err)
	_, err = p.Reserve([]string{k80first + "::0", k80second + "::0"})
	must.EqError(t, err, "2 shares of GPUs are requested, and sharing.fail_requests_greater_than_one allows one, as several may be of the same GPU; set count = 1 in the task's device block")
}

func TestShortUUID(t *testing.T) {
	for uuid, want := range map[string]string{
		k80first: "1ab7d8d0",
		"MIG-6fae5a2c-1b1e-5d4a-9d5e-0d1c6f6f4a11":         "6fae5a2c",
		"MIG-GPU-5607af3e-e65f-2562-f537-e55e3f92c247/7/0": "5607af3e/7/0",
		"0320000012345678": "0320000012345678",
	} {
		must.Eq(t, want, shortUUID(uuid))
	}
}

// TestFingerprint_instanceOldMIG: MIG devices of drivers before 470 are a group
// each as well (cases DEV-23).
func TestFingerprint_instanceOldMIG(t *testing.T) {
	t.Parallel()
	sim := changed(t, "a100-mig-535", `"driver_version": "535.104.05"`, `"driver_version": "460.106.00"`)
	groups := fingerprint(t, testPlugin(t, sim, func(c *Config) { c.GroupBy = groupByInstance })).until(withUsable(12))
	must.Len(t, 12, groups)
	old := 0
	for _, group := range groups {
		must.Eq(t, str(group.Devices[0].ID), group.Attributes["uuid"], must.Sprint(group.Name))
		if strings.HasPrefix(group.Devices[0].ID, "MIG-GPU-") {
			old++
		}
	}
	must.Eq(t, 10, old)
}
