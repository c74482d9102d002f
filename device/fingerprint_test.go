// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"
)

func str(s string) *structs.Attribute { return structs.NewStringAttribute(s) }
func num(n int64, unit string) *structs.Attribute {
	return structs.NewIntAttribute(n, unit)
}

// The four GPUs of the profile k80x4-352.
const (
	k80first  = "GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11"
	k80second = "GPU-9c03e1f2-52aa-0d7b-11c9-a4b06d2f7e52"
	k80third  = "GPU-e5c4402b-93df-4f60-b7de-08f3b9a1c6d3"
	k80fourth = "GPU-3f7712aa-cc05-81b4-6e2a-d97e5510fb84"
)

func TestFingerprint_k80(t *testing.T) {
	t.Parallel()
	groups := fingerprint(t, testPlugin(t, simulated(t, "k80x4-352"))).until(withUsable(4))
	must.Len(t, 1, groups)
	group := groups[0]
	must.NoError(t, group.Validate())
	must.Eq(t, "nvidia", group.Vendor)
	must.Eq(t, "gpu", group.Type)
	must.Eq(t, "Tesla K80", group.Name)
	must.Eq(t, &device.Device{ID: k80first, Healthy: true, HwLocality: &device.DeviceLocality{PciBusID: "0000:06:00.0"}}, group.Devices[0])
	must.Eq(t, k80fourth, group.Devices[3].ID)
	for name, want := range map[string]*structs.Attribute{
		"memory": num(11519, "MiB"), "power": num(149, "W"), "bar1": num(16384, "MiB"), "driver_version": str("352.39"),
		"cores_clock": num(875, "MHz"), "memory_clock": num(2505, "MHz"), "pci_bandwidth": num(15760, "MB/s"),
		"display_state": str("Disabled"), "cuda_version": str("7.5"), "compute_capability": str("3.7"),
		"architecture": str("Kepler"), "brand": str("tesla"), "ecc": structs.NewBoolAttribute(true), "cores": num(2496, ""),
	} {
		must.Eq(t, want, group.Attributes[name], must.Sprint(name))
	}
	// The GPUs are on two NUMA nodes, so the group is on none; and no GPU of a
	// group of four has a UUID for all.
	for _, name := range []string{"numa_node", "uuid", "mig_profile", "unified_memory", "shared", "replicas", attrSequence} {
		must.MapNotContainsKey(t, group.Attributes, name)
	}
}

// TestFingerprint_first: the first message comes within a second, also from a
// driver that hangs or is not there (cases DEV-19, DEV-20).
func TestFingerprint_first(t *testing.T) {
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Slow("nvmlInit", 3*time.Second, -1))
	for name, p := range map[string]*Plugin{
		"hanging": testPlugin(t, sim),
		"absent":  testPlugin(t, nil, func(c *Config) { c.DriverRoot = t.TempDir() }),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			begin := time.Now()
			messages, err := p.Fingerprint(ctx)
			must.NoError(t, err)
			message := <-messages
			must.Less(t, time.Second, time.Since(begin))
			must.SliceEmpty(t, message.Devices)
			cancel()
			for range messages {
			}
		})
	}
	must.NoError(t, sim.Slow("nvmlInit", 0, -1))
}

func TestFingerprint_disabled(t *testing.T) {
	p := testPlugin(t, nil, func(c *Config) { c.Enabled = false })
	_, err := p.Fingerprint(context.Background())
	must.ErrorIs(t, err, device.ErrPluginDisabled)
	_, err = p.Reserve([]string{k80first})
	must.ErrorIs(t, err, device.ErrPluginDisabled)
	_, err = p.Stats(context.Background(), time.Second)
	must.ErrorIs(t, err, device.ErrPluginDisabled)
}

// TestFingerprint_lost: one lost card stays listed, its neighbours untouched
// (cases DEV-13), and it comes back.
func TestFingerprint_lost(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	s := fingerprint(t, p)
	attributes := s.until(withUsable(4))[0].Attributes
	must.NoError(t, sim.Lose(3))
	groups := s.until(withUsable(3))
	lost := devices(groups)[k80fourth]
	must.StrContains(t, lost.HealthDesc, "code 15")
	must.StrContains(t, lost.HealthDesc, "0000:86:00.0")
	must.Eq(t, attributes, groups[0].Attributes)
	_, err := p.Reserve([]string{k80fourth})
	must.ErrorContains(t, err, `device "`+k80fourth+`" is unhealthy`)
	_, err = p.Reserve([]string{k80first})
	must.NoError(t, err)
	must.NoError(t, sim.Restore(3))
	s.until(withUsable(4))
}

// TestFingerprint_onlyChanges: nothing is sent while nothing changes.
func TestFingerprint_onlyChanges(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	s := fingerprint(t, p)
	s.until(withUsable(4))
	must.NoError(t, sim.ResetCalls())
	for start := time.Now(); sim.Calls()["nvmlDeviceGetTemperature"] < 12; {
		select {
		case message := <-s.messages:
			t.Fatalf("a message without a change: %+v", message.Devices)
		case <-time.After(50 * time.Millisecond):
		}
		must.Less(t, 20*time.Second, time.Since(start))
	}
}

// TestFingerprint_driverComesAndGoes without a restart (cases DEV-19).
func TestFingerprint_driverComesAndGoes(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "none")
	s := fingerprint(t, testPlugin(t, sim))
	must.SliceEmpty(t, s.until(withUsable(0)))
	must.NoError(t, sim.Load())
	groups := s.until(func(g []*device.DeviceGroup) bool { return usable(g) > 0 })
	version := groups[0].Attributes["driver_version"]
	must.NoError(t, sim.Unload())
	must.SliceEmpty(t, s.until(withUsable(0)))
	must.NotNil(t, version)
}

// TestFingerprint_upgrade: a new driver shows without a restart, half an upgrade
// makes all GPUs unhealthy (cases VOL-05).
func TestFingerprint_upgrade(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	s := fingerprint(t, testPlugin(t, sim))
	s.until(withUsable(4))
	must.NoError(t, sim.UpgradeLibraries("352.99"))
	groups := s.until(withUsable(0))
	must.Len(t, 4, groups[0].Devices)
	must.StrContains(t, groups[0].Devices[0].HealthDesc, "reboot or reload needed: kernel 352.39, library 352.99")

	// So does a plugin that was started meanwhile.
	restarted := fingerprint(t, testPlugin(t, sim)).until(func(g []*device.DeviceGroup) bool { return len(devices(g)) == 4 })
	must.Len(t, 1, restarted)
	must.Eq(t, "Tesla K80", restarted[0].Name)
	must.Eq(t, groups[0].Devices, restarted[0].Devices)

	must.NoError(t, sim.Unload())
	must.NoError(t, sim.Load())
	groups = s.until(withUsable(4))
	must.Eq(t, str("352.99"), groups[0].Attributes["driver_version"])
}

// TestFingerprint_ignored: ids whole and shortened, and one that fits nothing
// (cases DEV-22).
func TestFingerprint_ignored(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim, func(c *Config) {
		c.IgnoredGPUIDs = []string{k80first, "GPU-9C03E1F2", "GPU-00000000-no-such-gpu"}
	})
	log := recordLog(p)
	groups := fingerprint(t, p).until(withUsable(2))
	must.MapNotContainsKeys(t, devices(groups), []string{k80first, k80second})
	warnings := log.lines("fit no GPU of this node")
	must.SliceLen(t, 1, warnings)
	must.StrContains(t, warnings[0], "[WARN]")
	for _, id := range []string{"ids=[\"GPU-00000000-no-such-gpu\"]", k80first, k80second, k80third, k80fourth} {
		must.StrContains(t, warnings[0], id)
	}
	_, err := p.Reserve([]string{k80second})
	must.EqError(t, err, `device "`+k80second+`" is not offered: "ignored_gpu_ids" has "GPU-9C03E1F2"`)
}

// TestSetConfig_ambiguous: the beginning of two UUIDs is refused, or, when the
// driver answers only later, hides both with an error in the log (cases DEV-22).
func TestSetConfig_ambiguous(t *testing.T) {
	t.Parallel()
	const twin = "GPU-1ab7d8d0-05b4-44a1-8c2e-7a9d90f4b2c6"
	sim := changed(t, "k80x4-352", k80third, twin)
	config := defaultConfig()
	config.DriverRoot, config.FingerprintPeriod = sim.Root(), "1s"
	config.IgnoredGPUIDs = []string{k80fourth, "gpu-1AB7D8D0"}
	data := &base.Config{PluginConfig: encode(t, config)}

	must.NoError(t, sim.Unload())
	p := testPlugin(t, nil)
	must.NoError(t, p.SetConfig(data))
	log := recordLog(p)
	s := fingerprint(t, p)
	must.NoError(t, sim.Load())
	groups := s.until(withUsable(1))
	must.MapContainsKey(t, devices(groups), k80second)
	errs := log.lines("all GPUs that it fits are hidden")
	must.SliceLen(t, 1, errs)
	const want = `plugin config: ignored_gpu_ids[1] "gpu-1AB7D8D0" fits ` + k80first + ", " + twin + "; give more of the one that is meant"
	must.StrContains(t, strings.ReplaceAll(errs[0], `\"`, `"`), want)

	must.EqError(t, testPlugin(t, nil).SetConfig(data), want)
}

// TestFingerprint_instance: each GPU by itself, with what tells it from others
// (cases DEV-23).
func TestFingerprint_instance(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "titanx4-361"), func(c *Config) { c.GroupBy = groupByInstance })
	groups := fingerprint(t, p).until(withUsable(4))
	must.Len(t, 4, groups)
	for _, group := range groups {
		must.Len(t, 1, group.Devices)
		must.Eq(t, str(group.Devices[0].ID), group.Attributes["uuid"])
		must.StrHasPrefix(t, "GeForce GTX TITAN X ", group.Name)
		must.StrContains(t, group.Devices[0].ID, strings.TrimPrefix(group.Name, "GeForce GTX TITAN X "))
		index, minor := *group.Attributes["index"].Int, *group.Attributes["minor"].Int
		must.Eq(t, 3, index+minor)
		must.Eq(t, str(group.Devices[0].HwLocality.PciBusID), group.Attributes["pci_bus_id"])
	}
}

// TestFingerprint_xid: a fatal XID shows at once, not after a period, and an
// application's own error does not (cases DEV-14).
func TestFingerprint_xid(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	p := testPlugin(t, sim, func(c *Config) { c.FingerprintPeriod = "1m" })
	s := fingerprint(t, p)
	s.until(withUsable(8))
	must.NoError(t, sim.XID(2, 94))
	must.NoError(t, sim.XID(5, 79))
	begin := time.Now()
	groups := s.until(withUsable(7))
	must.Less(t, 10*time.Second, time.Since(begin))
	for id, d := range devices(groups) {
		if !d.Healthy {
			must.StrContains(t, d.HealthDesc, "Xid 79")
			must.Eq(t, groups[0].Devices[5].ID, id)
		}
	}
}

// TestFingerprint_xidRules: the operator's lists decide before the built-in ones
// (cases DEV-14).
func TestFingerprint_xidRules(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	p := testPlugin(t, sim, func(c *Config) {
		c.FingerprintPeriod, c.Health = "1m", &HealthConfig{XIDIgnore: []string{"79"}, XIDFatal: []string{"45"}}
	})
	s := fingerprint(t, p)
	s.until(withUsable(8))
	must.NoError(t, sim.XID(2, 79))
	must.NoError(t, sim.XID(5, 45))
	groups := s.until(func(g []*device.DeviceGroup) bool { return usable(g) < 8 })
	must.Eq(t, 7, usable(groups))
	must.StrContains(t, groups[0].Devices[5].HealthDesc, "Xid 45")
}

// TestFingerprint_cardComesAndGoes: the PCI bus gets and loses a GPU while the
// driver is loaded (cases DEV-18).
func TestFingerprint_cardComesAndGoes(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	function := filepath.Join(sim.Root(), "sys/bus/pci/devices/0000:07:00.0")
	aside := filepath.Join(t.TempDir(), "function")
	remove := func() {
		must.NoError(t, os.Rename(function, aside))
		must.NoError(t, sim.Set(1, map[string]string{"present": "false"}))
	}
	remove()
	s := fingerprint(t, testPlugin(t, sim))
	groups := s.until(withUsable(3))
	must.MapNotContainsKey(t, devices(groups), k80second)
	must.NoError(t, os.Rename(aside, function))
	must.NoError(t, sim.Set(1, map[string]string{"present": "true"}))
	must.True(t, devices(s.until(withUsable(4)))[k80second].Healthy)
	remove()
	s.until(func(g []*device.DeviceGroup) bool { return usable(g) == 3 && devices(g)[k80second] == nil })
}

// TestFingerprint_noCard: a driver without a GPU, or without its library, has
// nothing to offer until it has (cases DEV-19).
func TestFingerprint_noCard(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	var functions []string
	for gpu, function := range []string{"06", "07", "85", "86"} {
		functions = append(functions, "sys/bus/pci/devices/0000:"+function+":00.0")
		must.NoError(t, sim.Set(gpu, map[string]string{"present": "false"}))
	}
	aside := t.TempDir()
	for n, function := range functions {
		must.NoError(t, os.Rename(filepath.Join(sim.Root(), function), filepath.Join(aside, strconv.Itoa(n))))
	}
	p := testPlugin(t, sim)
	s := fingerprint(t, p)
	must.SliceEmpty(t, s.until(withUsable(0)))
	answered := func() bool { return !p.host.Inventory(t.Context()).Time.IsZero() }
	must.True(t, answered())
	must.NotEq(t, "", p.host.Inventory(t.Context()).Reason)
	for n, function := range functions {
		must.NoError(t, os.Rename(filepath.Join(aside, strconv.Itoa(n)), filepath.Join(sim.Root(), function)))
		must.NoError(t, sim.Set(n, map[string]string{"present": "true"}))
	}
	s.until(withUsable(4))
}

// TestFingerprint_initFails: NVML that cannot be started is tried each period
// (cases DEV-19).
func TestFingerprint_initFails(t *testing.T) {
	t.Parallel()
	for _, code := range []int{9, 12} {
		sim := simulated(t, "k80x4-352")
		must.NoError(t, sim.Fail("nvmlInit", code, -1))
		s := fingerprint(t, testPlugin(t, sim))
		s.until(withUsable(0))
		must.NoError(t, sim.ResetCalls())
		within(t, func() bool { return sim.Calls()["nvmlInit_v2"] >= 2 })
		must.NoError(t, sim.Fail("nvmlInit", 0, -1))
		s.until(withUsable(4))
	}
}

// TestStart_log: the log tells what runs here with which options, and which
// driver it found (cases DEV-32).
func TestStart_log(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "k80x4-352"))
	log := recordLog(p)
	fingerprint(t, p).until(withUsable(4))
	starts := log.lines("NVIDIA device plugin starts")
	must.SliceLen(t, 1, starts)
	for _, want := range []string{"[INFO]", "version=0.0.0-test", "group_by=model", "mig=auto", "sharing=none"} {
		must.StrContains(t, starts[0], want)
	}
	found := log.lines("NVIDIA driver found")
	must.SliceLen(t, 1, found)
	for _, want := range []string{"[INFO]", "driver=352.39", "cuda=7.5", "libnvidia-ml.so", "gpus=4"} {
		must.StrContains(t, found[0], want)
	}
}

// TestFingerprint_repeat: agents that lose the first message get a second one,
// slightly changed, some time later (cases DEV-20).
func TestFingerprint_repeat(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "k80x4-352"))
	fingerprint(t, p).until(withUsable(4))
	h, s, err := p.start()
	must.NoError(t, err)
	out := make(chan *device.FingerprintResponse, 2)
	f := &fingerprinter{plugin: p, host: h, settings: s, begin: time.Now(), out: out}
	_, ok := f.look(t.Context())
	must.True(t, ok)
	must.MapNotContainsKey(t, (<-out).Devices[0].Attributes, attrSequence)
	f.begin = f.begin.Add(-2 * repeatAfter)
	next, ok := f.look(t.Context())
	must.True(t, ok)
	must.Eq(t, s.period, next)
	must.Eq(t, num(2, ""), (<-out).Devices[0].Attributes[attrSequence])
}

// TestStreams: a thousand streams leave nothing behind (goleak looks at the end).
func TestStreams(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "k80x4-352"))
	for range 1000 {
		ctx, cancel := context.WithCancel(context.Background())
		messages, err := p.Fingerprint(ctx)
		must.NoError(t, err)
		must.NotNil(t, <-messages)
		cancel()
		for range messages {
		}
	}
}
