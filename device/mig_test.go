// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"
)

// groupSizes are the numbers of devices by group.
func groupSizes(groups []*device.DeviceGroup) map[string]int {
	sizes := make(map[string]int)
	for _, group := range groups {
		sizes[group.Name] = len(group.Devices)
	}
	return sizes
}

// TestMIG: two whole GPUs and two split ones make groups by profile; a split GPU
// itself is not offered (cases DEV-09 to DEV-11).
func TestMIG(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	p := testPlugin(t, sim)
	groups := fingerprint(t, p).until(withUsable(12))
	sizes := groupSizes(groups)
	must.Eq(t, 2, sizes["NVIDIA A100-PCIE-40GB"])
	must.Eq(t, 8, sizes["NVIDIA A100-PCIE-40GB MIG 1g.5gb"])
	for _, group := range groups {
		profile, split := group.Attributes["mig_profile"]
		must.Eq(t, strings.Contains(group.Name, " MIG "), split)
		if !split {
			must.Eq(t, num(40960, "MiB"), group.Attributes["memory"])
			continue
		}
		must.StrHasSuffix(t, *profile.String, group.Name)
		must.Less(t, 40960, *group.Attributes["memory"].Int)
		must.MapNotContainsKeys(t, group.Attributes, []string{"power", "bar1", "cores"})
		must.StrHasPrefix(t, "MIG-", group.Devices[0].ID)

		r, err := p.Reserve([]string{group.Devices[0].ID})
		must.NoError(t, err)
		must.Eq(t, group.Devices[0].ID, r.Envs["NVIDIA_VISIBLE_DEVICES"])
		nodes := gpuNodes(r)
		must.Len(t, 3, nodes)
		must.StrHasPrefix(t, "/dev/nvidia-caps/nvidia-cap", nodes[1])
	}
}

// TestMIG_off: GPUs in MIG mode are left alone.
func TestMIG_off(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "a100-mig-535"), func(c *Config) { c.MIG = migOff })
	must.Eq(t, map[string]int{"NVIDIA A100-PCIE-40GB": 2}, groupSizes(fingerprint(t, p).until(withUsable(2))))
}

// TestMIG_ignoredParent hides its MIG devices.
func TestMIG_ignoredParent(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	p := testPlugin(t, sim)
	first := fingerprint(t, p).until(withUsable(12))
	inventory := p.host.Inventory(t.Context())
	hidden := ""
	for _, gpu := range inventory.GPUs {
		if len(gpu.MIGDevices) == 7 {
			hidden = gpu.UUID
		}
	}
	must.NotEq(t, "", hidden)
	other := testPlugin(t, sim, func(c *Config) { c.IgnoredGPUIDs = []string{hidden} })
	must.Eq(t, usable(first)-7, usable(fingerprint(t, other).until(withUsable(5))))
}

// TestMIG_repartition: new devices appear without a restart, one that a task was
// given stays as unhealthy, and no mix of profiles does harm (cases DEV-10).
func TestMIG_repartition(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	p := testPlugin(t, sim)
	log := recordLog(p)
	s := fingerprint(t, p)
	groups := s.until(withUsable(12))
	split := -1
	held := ""
	for _, gpu := range p.host.Inventory(t.Context()).GPUs {
		if len(gpu.MIGDevices) == 7 {
			split, held = gpu.Index, gpu.MIGDevices[2].UUID
		}
	}
	must.MapContainsKey(t, devices(groups), held)
	_, err := p.Reserve([]string{held})
	must.NoError(t, err)

	must.NoError(t, sim.Set(split, map[string]string{"mig": "1g.5gb,1g.5gb,2g.10gb"}))
	groups = s.until(func(g []*device.DeviceGroup) bool { return usable(g) == 8 })
	must.False(t, devices(groups)[held].Healthy)
	must.Eq(t, "not there any more", devices(groups)[held].HealthDesc)
	_, err = p.Reserve([]string{held})
	must.ErrorContains(t, err, "is unknown")

	must.NoError(t, sim.Set(split, map[string]string{"mig": "none"}))
	groups = s.until(withUsable(5))
	must.Eq(t, "not there any more", devices(groups)[held].HealthDesc)
	must.SliceLen(t, 1, log.lines("in MIG mode but has no MIG devices"))
	must.NoError(t, sim.Set(split, map[string]string{"mig": "off"}))
	must.Eq(t, 3, groupSizes(s.until(withUsable(6)))["NVIDIA A100-PCIE-40GB"])
}

// TestMIG_lost: a GPU that is lost in MIG mode keeps its MIG devices, unhealthy with
// the reason; it is not offered as a whole (cases DEV-11, DEV-13).
func TestMIG_lost(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100-mig-535")
	p := testPlugin(t, sim)
	s := fingerprint(t, p)
	first := s.until(withUsable(12))
	split := p.host.Inventory(t.Context()).GPUs[1]
	must.Len(t, 7, split.MIGDevices)
	must.NoError(t, sim.Lose(split.Index))
	groups := s.until(withUsable(5))
	must.Eq(t, groupSizes(first), groupSizes(groups))
	for _, mig := range split.MIGDevices {
		must.StrContains(t, devices(groups)[mig.UUID].HealthDesc, "GPU is lost (code 15) at "+split.PCIBusID)
	}
	_, err := p.Reserve([]string{split.MIGDevices[0].UUID})
	must.ErrorContains(t, err, "is unhealthy: GPU is lost (code 15)")
	must.NoError(t, sim.Restore(split.Index))
	must.Eq(t, groupSizes(first), groupSizes(s.until(withUsable(12))))
}

// TestMIG_shares: MIG devices have shares too, but not of MPS (cases DEV-30).
func TestMIG_shares(t *testing.T) {
	sim := simulated(t, "a100-mig-535")
	p := testPlugin(t, sim, func(c *Config) { c.Sharing = &SharingConfig{Strategy: sharingTime, Replicas: 2} })
	groups := fingerprint(t, p).until(withUsable(24))
	must.Eq(t, 16, groupSizes(groups)["NVIDIA A100-PCIE-40GB MIG 1g.5gb"])

	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", t.TempDir())
	p = testPlugin(t, sim, func(c *Config) { c.Sharing = &SharingConfig{Strategy: sharingMPS, Replicas: 2} })
	groups = fingerprint(t, p).until(func(g []*device.DeviceGroup) bool { return len(devices(g)) == 24 })
	for _, d := range devices(groups) {
		if strings.HasPrefix(d.ID, "MIG-") {
			must.StrContains(t, d.HealthDesc, "MPS is not supported on a GPU in MIG mode")
		}
	}
}

// TestMIG_stats: a MIG device has its own memory.
func TestMIG_stats(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "a100-mig-535"))
	all := statistics(t, p, func(s map[string]*device.DeviceStats) bool { return len(s) == 12 })
	for id, stats := range all {
		must.NotNil(t, stats.Summary.IntDenominatorVal, must.Sprint(id))
		if strings.HasPrefix(id, "MIG-") {
			must.Less(t, 40960, *stats.Summary.IntDenominatorVal)
		}
	}
}
