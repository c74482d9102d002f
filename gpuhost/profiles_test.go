// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// TestProfile_old340: a library without most functions, and a card that tells
// next to nothing (cases DEV-01, DEV-02).
func TestProfile_old340(t *testing.T) {
	t.Parallel()
	var log lines
	sim := simulated(t, "old-340")
	must.NoError(t, sim.Set(0, map[string]string{"processes": "4711:64MiB:python"}))
	host := open(t, sim, logging(&log))
	inv := host.Inventory(context.Background())
	must.Eq(t, "", inv.Reason)
	must.Len(t, 1, inv.GPUs)
	gpu := inv.GPUs[0]
	must.Eq(t, "", gpu.Unhealthy)
	must.Eq(t, "Quadro NVS 295", value(t, gpu.Model))
	must.Eq(t, "0000:01:00.0", gpu.PCIBusID)
	must.Nil(t, gpu.BAR1TotalBytes)
	must.Eq(t, "6.5", inv.Driver.CUDA.String())
	now := host.Readings(context.Background())
	must.NoError(t, now.GPUs[0].Err)
	must.Eq(t, 54, value(t, now.GPUs[0].TemperatureCelsius))
	must.Nil(t, now.GPUs[0].Processes)
	must.Len(t, 1, log.with("lacks functions", "nvmlDeviceGetBAR1MemoryInfo"))
}

// TestProfile_gh200: no BAR1 aperture is no fault (cases DEV-05).
func TestProfile_gh200(t *testing.T) {
	t.Parallel()
	host := open(t, simulated(t, "gh200-580"))
	gpu := host.Inventory(context.Background()).GPUs[0]
	must.Eq(t, "", gpu.Unhealthy)
	must.Nil(t, gpu.BAR1TotalBytes)
	must.Eq(t, 102625181696, value(t, gpu.TotalBytes))
	must.Eq(t, "Hopper", value(t, gpu.Architecture))
	now := host.Readings(context.Background()).GPUs[0]
	must.NoError(t, now.Err)
	must.Nil(t, now.BAR1UsedBytes)
	must.NotNil(t, now.MemoryUsedBytes)
}

// TestProfile_gb10: a GPU that works in the host's memory (cases DEV-06).
func TestProfile_gb10(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "gb10-580")
	const meminfo = "MemTotal: 125489508 kB\nMemFree: 1 kB\nMemAvailable: 100391606 kB\n"
	must.NoError(t, os.WriteFile(filepath.Join(sim.Root(), "proc/meminfo"), []byte(meminfo), 0o600))
	host := open(t, sim)
	gpu := host.Inventory(context.Background()).GPUs[0]
	must.Eq(t, "", gpu.Unhealthy)
	must.True(t, gpu.UnifiedMemory)
	must.Eq(t, 125489508<<10, value(t, gpu.TotalBytes))
	must.Nil(t, gpu.PowerLimitMilliwatts)
	now := host.Readings(context.Background()).GPUs[0]
	must.NoError(t, now.Err)
	must.Eq(t, gpu.TotalBytes, now.MemoryTotalBytes)
	must.Eq(t, (125489508-100391606)<<10, value(t, now.MemoryUsedBytes))
}

// TestProfile_mixed: two models, minors that are not indexes (cases DEV-25).
func TestProfile_mixed(t *testing.T) {
	t.Parallel()
	host := open(t, simulated(t, "mixed"))
	inv := host.Inventory(context.Background())
	var minors []int
	models := make(map[string]bool)
	for i := range inv.GPUs {
		minors = append(minors, inv.GPUs[i].Minor)
		models[value(t, inv.GPUs[i].Model)] = true
		_, err := host.GPUNode(&inv.GPUs[i])
		must.NoError(t, err)
	}
	must.Eq(t, []int{1, 3, 5, 0}, minors)
	must.MapLen(t, 2, models)
}

// TestProfile_mig: MIG devices with their profile, memory and capability nodes
// (cases DEV-09).
func TestProfile_mig(t *testing.T) {
	t.Parallel()
	host := open(t, simulated(t, "a100-mig-535"))
	inv := host.Inventory(context.Background())
	must.Len(t, 4, inv.GPUs)
	profiles := make(map[string]int)
	for i := range inv.GPUs {
		gpu := &inv.GPUs[i]
		must.Eq(t, gpu.MIGEnabled, len(gpu.MIGDevices) > 0)
		for m := range gpu.MIGDevices {
			mig := &gpu.MIGDevices[m]
			profiles[mig.Profile]++
			must.StrHasPrefix(t, "MIG-", mig.UUID)
			must.Greater(t, 1<<30, value(t, mig.TotalBytes))
			nodes, err := host.MIGNodes(gpu, mig)
			must.NoError(t, err)
			must.Len(t, 2, nodes)
			must.StrHasPrefix(t, "/dev/nvidia-caps/nvidia-cap", nodes[0].ContainerPath)
		}
	}
	must.Eq(t, 8, profiles["1g.5gb"])
	must.Eq(t, 10, total2(profiles))
	now := host.Readings(context.Background())
	for _, reading := range now.GPUs {
		for _, mig := range reading.MIG {
			must.NotNil(t, mig.MemoryUsedBytes)
		}
	}
}

func total2(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// TestProfiles: every other host is whole, its GPUs healthy and told apart.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string]struct {
		gpus      int
		model     string
		bandwidth uint64 // PCIe, MB/s
	}{
		"p100x2-384": {2, "Tesla P100", 15760}, "v100x8-450": {8, "V100", 15760},
		"a100x8-535": {8, "A100", 31504}, "h200x8-570": {8, "H200", 63008},
	} {
		t.Run(profile, func(t *testing.T) {
			host := open(t, simulated(t, profile))
			inv := inventory(t, host, complete)
			must.Len(t, want.gpus, inv.GPUs)
			seen := make(map[string]bool)
			for _, gpu := range inv.GPUs {
				must.Eq(t, "", gpu.Unhealthy)
				must.StrContains(t, value(t, gpu.Model), want.model)
				must.Eq(t, want.bandwidth, value(t, gpu.PCIeBandwidthMBps))
				must.Positive(t, value(t, gpu.MemoryBandwidthMBps))
				seen[gpu.UUID] = true
			}
			must.MapLen(t, want.gpus, seen)
			for _, reading := range host.Readings(context.Background()).GPUs {
				must.NoError(t, reading.Err)
			}
		})
	}
}

// TestNVLinkRate: counters become a rate with the second sample.
func TestNVLinkRate(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "h200x8-570")
	host := open(t, sim)
	first := host.Readings(context.Background())
	must.Nil(t, first.GPUs[0].NVLinkRxKBps)
	must.NoError(t, sim.Set(0, map[string]string{"nvlink_rx_kib": "1000000000000"}))
	now := readings(t, host, func(r *gpuhost.Readings) bool { return r.Time.After(first.Time) })
	must.Positive(t, value(t, now.GPUs[0].NVLinkRxKBps))
}

// TestXIDs: a fatal XID makes its GPU unhealthy and wakes whoever watches; all are
// counted (cases DEV-14).
func TestXIDs(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	host := open(t, sim, func(c *gpuhost.Config) { c.HealthyAfter = time.Hour })
	changed, stop := host.Watch()
	defer stop()
	host.Inventory(context.Background())
	must.NoError(t, sim.XID(1, 94))
	must.NoError(t, sim.XID(1, 79))
	<-changed
	inv := inventory(t, host, unhealthy(1))
	must.StrContains(t, inv.GPUs[1].Unhealthy, "Xid 79")
	must.StrContains(t, inv.GPUs[1].Unhealthy, inv.GPUs[1].PCIBusID)
	must.Eq(t, map[string]map[uint64]uint64{inv.GPUs[1].UUID: {94: 1, 79: 1}}, host.XIDs())

	// The watch goes on with a driver that was loaded anew, which clears XIDs.
	must.NoError(t, sim.Unload())
	inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Reason != "" })
	must.NoError(t, sim.Load())
	inventory(t, host, unhealthy())
	must.Eq(t, map[uint64]uint64{94: 1, 79: 1}, host.XIDs()[inv.GPUs[1].UUID], must.Sprint("counters outlive the driver"))
	must.NoError(t, sim.XID(0, 119))
	inventory(t, host, unhealthy(0))
}

// TestXIDs_again: a second fatal XID within the quiet time begins it anew and is the
// reason from then on (cases DEV-15).
func TestXIDs_again(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	host := open(t, sim, func(c *gpuhost.Config) { c.HealthyAfter = time.Hour })
	changed, stop := host.Watch()
	defer stop()
	host.Look()
	for _, xid := range []int{79, 95} {
		must.NoError(t, sim.XID(1, xid))
		<-changed
		must.StrHasPrefix(t, fmt.Sprintf("Xid %d (", xid), host.Look().GPUs[1].Unhealthy)
	}
}

// TestXIDs_memory: of 63 and 64 the state of the memory decides (cases DEV-14).
func TestXIDs_memory(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	host := open(t, sim)
	changed, stop := host.Watch()
	defer stop()
	host.Look()
	must.NoError(t, sim.XID(1, 63))
	<-changed
	must.True(t, unhealthy()(host.Look()))
	must.NoError(t, sim.Set(1, map[string]string{"remapped_pending": "1"}))
	must.NoError(t, sim.XID(1, 63))
	<-changed
	now := host.Look()
	must.True(t, unhealthy(1)(now))
	must.StrContains(t, now.GPUs[1].Unhealthy, "row remapping pending")
}

// TestPowerFallback: where the call tells no power, the field values do: the average,
// else the present one (cases MET-07).
func TestPowerFallback(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "h200x8-570")
	host := open(t, sim)
	power := func() uint64 { return value(t, host.Sample().GPUs[0].PowerMilliwatts) }
	must.Eq(t, 76120, power())
	must.NoError(t, sim.Fail("nvmlDeviceGetPowerUsage", 3, 0))
	must.Eq(t, 76000, power())
	must.NoError(t, sim.Set(0, map[string]string{"power_average_mw": "null"}))
	must.Eq(t, 76120, power())
	must.NoError(t, sim.Set(0, map[string]string{"power_usage_mw": "null"}))
	now := host.Sample().GPUs[0]
	must.NoError(t, now.Err)
	must.Nil(t, now.PowerMilliwatts)
}

// TestXIDs_nvmlFails: that NVML fails as a whole for a moment makes no GPU well
// (cases DEV-15).
func TestXIDs_nvmlFails(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	host := open(t, sim, func(c *gpuhost.Config) { c.HealthyAfter = time.Hour })
	changed, stop := host.Watch()
	defer stop()
	host.Look()
	must.NoError(t, sim.XID(1, 79))
	<-changed
	must.True(t, unhealthy(1)(host.Look()))
	must.NoError(t, sim.Fail("nvmlDeviceGetCount", 999, simhost.AllGPUs))
	must.StrContains(t, host.Look().Reason, "nvmlDeviceGetCount_v2: unknown error (code 999)")
	must.NoError(t, sim.ClearFaults())
	now := host.Look()
	must.Eq(t, "", now.Reason)
	must.True(t, unhealthy(1)(now), must.Sprintf("%+v", now))
	must.StrContains(t, now.GPUs[1].Unhealthy, "Xid 79")
}

// TestWatch_driver: who watches hears at once of a driver that was replaced or
// unloaded.
func TestWatch_driver(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	host := open(t, sim)
	changed, stop := host.Watch()
	defer stop()
	host.Inventory(context.Background())
	must.NoError(t, sim.Upgrade("550.54.14"))
	<-changed
	inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Driver.Version == "550.54.14" && len(i.GPUs) == 8 })
	must.NoError(t, sim.Unload())
	<-changed
	inventory(t, host, func(i *gpuhost.Inventory) bool { return i.Reason != "" })
}

// TestInject: an event that is played has the same effect as one of the driver, once
// (cases MET-06).
func TestInject(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	uuid := open(t, sim).Inventory(context.Background()).GPUs[1].UUID
	host := open(t, sim, func(c *gpuhost.Config) {
		c.HealthyAfter = time.Hour
		c.Inject = []gpuhost.Injection{{UUID: uuid, XID: 94}, {UUID: "GPU-elsewhere", XID: 79}, {UUID: uuid, XID: 79}}
	})
	host.Inventory(context.Background())
	must.MapEmpty(t, host.XIDs(), must.Sprint("nobody watches"))
	changed, stop := host.Watch()
	defer stop()
	host.Look()
	<-changed
	must.Eq(t, map[string]map[uint64]uint64{uuid: {94: 1, 79: 1}}, host.XIDs())
	must.StrContains(t, inventory(t, host, unhealthy(1)).GPUs[1].Unhealthy, "Xid 79")
	host.Look()
	must.Eq(t, map[string]map[uint64]uint64{uuid: {94: 1, 79: 1}}, host.XIDs(), must.Sprint("once each"))
}

// TestRowRemapping: what the card says of its memory decides, also after a
// restart of ours (cases DEV-15).
func TestRowRemapping(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	must.NoError(t, sim.Set(3, map[string]string{"remapped_pending": "1"}))
	inv := open(t, sim).Inventory(context.Background())
	must.Eq(t, "row remapping pending; reset the GPU to complete it", inv.GPUs[3].Unhealthy)
	must.True(t, unhealthy(3)(inv))
	must.NoError(t, sim.Set(3, map[string]string{"remapped_failure": "1"}))
	inv = open(t, sim).Inventory(context.Background())
	must.StrContains(t, inv.GPUs[3].Unhealthy, "row remapping failed")
}

// TestPageRetirement: pages that wait for a reset make a GPU unhealthy, with drivers
// that have field values and with those that do not (cases DEV-15).
func TestPageRetirement(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"k80x4-352", "v100x8-450"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, profile)
			must.NoError(t, sim.Set(2, map[string]string{"retired_pending": "true"}))
			inv := open(t, sim).Look()
			must.True(t, unhealthy(2)(inv), must.Sprintf("%+v", inv))
			must.Eq(t, "page retirement pending; reset the GPU or reboot to complete it", inv.GPUs[2].Unhealthy)
		})
	}
}

// TestFabric: GPUs on NVLink switches wait for the fabric (cases DEV-35).
func TestFabric(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "h200x8-570")
	must.NoError(t, sim.Set(0, map[string]string{"fabric_state": "2"}))
	host := open(t, sim)
	inv := host.Inventory(context.Background())
	must.StrContains(t, inv.GPUs[0].Unhealthy, "fabric not ready")
	must.True(t, unhealthy(0)(inv))
	must.NoError(t, sim.Set(0, map[string]string{"fabric_state": "3"}))
	inventory(t, host, unhealthy())
}

// TestFabric_askedAgain: that the fabric was complete once does not hold for a driver
// that was loaded anew, nor for a GPU that had a fault since; a fabric that failed is
// no complete one (cases DEV-35).
func TestFabric_askedAgain(t *testing.T) {
	t.Parallel()
	for name, interlude := range map[string]func(*testing.T, *simhost.Host, *gpuhost.Host){
		"loaded anew": func(t *testing.T, sim *simhost.Host, host *gpuhost.Host) {
			must.NoError(t, sim.Unload())
			must.SliceEmpty(t, host.Look().GPUs)
			must.NoError(t, sim.Load())
		},
		"after a reset": func(t *testing.T, sim *simhost.Host, host *gpuhost.Host) {
			must.NoError(t, sim.Fail("nvmlDeviceGetTemperature", 16, 0))
			must.StrContains(t, host.Look().GPUs[0].Unhealthy, "code 16")
			must.NoError(t, sim.ClearFaults())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, "h200x8-570")
			host := open(t, sim)
			must.True(t, unhealthy()(host.Look()))
			interlude(t, sim, host)
			must.NoError(t, sim.Set(0, map[string]string{"fabric_status": "999"}))
			must.Eq(t, "fabric not ready (unknown error (code 999)); see the fabric manager's log", host.Look().GPUs[0].Unhealthy)
			must.NoError(t, sim.Set(0, map[string]string{"fabric_status": "0", "fabric_state": "2"}))
			must.StrContains(t, host.Look().GPUs[0].Unhealthy, "fabric not ready (state 2)")
			must.NoError(t, sim.Set(0, map[string]string{"fabric_state": "3"}))
			inventory(t, host, unhealthy())
		})
	}
}
