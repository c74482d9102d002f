// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// statistics reads a stream until a message is as wished.
func statistics(t *testing.T, p *Plugin, wished func(map[string]*device.DeviceStats) bool) map[string]*device.DeviceStats {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	messages, err := p.Stats(ctx, time.Second)
	must.NoError(t, err)
	for message := range messages {
		must.NoError(t, message.Error)
		all := make(map[string]*device.DeviceStats)
		for _, group := range message.Groups {
			for id, stats := range group.InstanceStats {
				all[id] = stats
			}
		}
		if wished(all) {
			cancel()
			for range messages {
			}
			return all
		}
	}
	t.Fatal("no such statistics")
	return nil
}

func TestStats(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Fail("nvmlDeviceGetEncoderUtilization", 3, 1))
	p := testPlugin(t, sim)
	all := statistics(t, p, func(s map[string]*device.DeviceStats) bool { return len(s) == 4 })
	stats := all[k80second]
	must.False(t, stats.Timestamp.IsZero())
	must.Eq(t, 56, *stats.Summary.IntNumeratorVal)
	must.Eq(t, 11519, *stats.Summary.IntDenominatorVal)
	must.Eq(t, "MiB", stats.Summary.Unit)
	values := stats.Stats.Attributes
	for name, want := range map[string]struct {
		n, of int64
		unit  string
	}{
		"Power usage": {71, 149, "W"}, "GPU utilization": {37, -1, "%"}, "Memory utilization": {4, -1, "%"},
		"Temperature": {41, -1, "C"}, "Memory state": {56, 11519, "MiB"}, "BAR1 buffer state": {3, 16384, "MiB"},
		"ECC L1 errors": {0, -1, "#"}, "Decoder utilization": {0, -1, "%"}, "Cores clock": {562, 875, "MHz"},
	} {
		value := values[name]
		must.NotNil(t, value, must.Sprint(name))
		must.Eq(t, want.n, *value.IntNumeratorVal, must.Sprint(name))
		must.Eq(t, want.unit, value.Unit)
		if want.of >= 0 {
			must.Eq(t, want.of, *value.IntDenominatorVal, must.Sprint(name))
		}
	}
	must.Eq(t, "N/A", *values["Encoder utilization"].StringVal)
	must.Eq(t, "N/A", *values["PCIe received"].StringVal)
}

// TestStats_lost: a lost card has no numbers, the others keep theirs.
func TestStats_lost(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	must.NoError(t, sim.Lose(0))
	p := testPlugin(t, sim)
	all := statistics(t, p, func(s map[string]*device.DeviceStats) bool { return len(s) >= 3 })
	must.Eq(t, 41, *all[k80second].Stats.Attributes[statTemperature].IntNumeratorVal)
	if lost := all[k80first]; lost != nil {
		must.Eq(t, "N/A", *lost.Stats.Attributes[statTemperature].StringVal)
		must.Eq(t, "N/A", *lost.Summary.StringVal)
	}
}

// TestStats_processes: each process with its name and memory.
func TestStats_processes(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	addProcess(t, sim)
	p := testPlugin(t, sim)
	all := statistics(t, p, func(s map[string]*device.DeviceStats) bool {
		return s[k80first] != nil && s[k80first].Stats.Nested[statProcesses] != nil
	})
	process := all[k80first].Stats.Nested[statProcesses].Nested["4711"]
	must.Eq(t, "train", *process.Attributes["Name"].StringVal)
	must.Eq(t, 512, *process.Attributes["Memory"].IntNumeratorVal)
}

func addProcess(t *testing.T, sim *simhost.Host) {
	t.Helper()
	must.NoError(t, sim.Set(0, map[string]string{
		"processes": `[{"pid": 4711, "name": "train", "used_bytes": 536870912}]`,
	}))
}

// TestStats_noProcesses: a driver that cannot list processes has the other
// statistics while one runs (cases DEV-02).
func TestStats_noProcesses(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "old-340")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	messages, err := testPlugin(t, sim).Stats(ctx, time.Second)
	must.NoError(t, err)
	temperature := func(message *device.StatsResponse) int64 {
		must.NotNil(t, message, must.Sprint("the stream has ended"))
		for _, group := range message.Groups {
			for _, stats := range group.InstanceStats {
				must.MapEmpty(t, stats.Stats.Nested)
				return *stats.Stats.Attributes[statTemperature].IntNumeratorVal
			}
		}
		return 0
	}
	for temperature(<-messages) != 54 {
	}
	addProcess(t, sim)
	must.NoError(t, sim.Set(0, map[string]string{"temperature": "55"}))
	for temperature(<-messages) != 55 {
	}
	cancel()
	for range messages {
	}
}

// TestStats_slow: a slow host is asked less often, which the log says once; a
// quick one as often as was asked for (cases DEV-21).
func TestStats_slow(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	log := recordLog(p)
	h, s, err := p.start()
	must.NoError(t, err)
	stats := &statStream{log: p.log, host: h, settings: s, pace: newPace(time.Second)}
	until := func(wished func(time.Duration) bool) {
		t.Helper()
		within(t, func() bool {
			stats.sample(t.Context())
			return wished(stats.pace.interval)
		})
	}
	for range 2 {
		must.NoError(t, sim.Slow("nvmlDeviceGetTemperature", 700*time.Millisecond, -1))
		until(func(interval time.Duration) bool { return interval > time.Second })
		must.NoError(t, sim.Slow("nvmlDeviceGetTemperature", 0, -1))
		until(func(interval time.Duration) bool { return interval == time.Second })
	}
	must.SliceLen(t, 1, log.lines("statistics are collected less often"))
}

// TestStats_slowLook: a sample that waits for the first look at a host is not
// slow for that (cases DEV-21).
func TestStats_slowLook(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	const slow = 3 * time.Second
	must.NoError(t, sim.Slow("nvmlInit", slow, -1))
	p := testPlugin(t, sim)
	p.open = func(cfg gpuhost.Config) (host, error) {
		cfg.Patience, cfg.CallLimit = time.Minute, time.Minute
		return gpuhost.Open(cfg)
	}
	begin := time.Now()
	h, _, err := p.start()
	must.NoError(t, err)
	readings := h.Readings(t.Context())
	must.SliceLen(t, 4, readings.GPUs)
	must.GreaterEq(t, slow, time.Since(begin))
	must.Positive(t, readings.Took)
	must.Less(t, slow, readings.Took)
}

// TestStats_streams: streams share the samples of a slow host; for themselves
// they would take 16 (cases DEV-21).
func TestStats_streams(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	h, _, err := p.start()
	must.NoError(t, err)
	h.Readings(t.Context())
	must.NoError(t, sim.Slow("nvmlDeviceGetPowerUsage", 1100*time.Millisecond, -1))
	must.NoError(t, sim.ResetCalls())
	ctx, cancel := context.WithCancel(t.Context())
	var streams []<-chan *device.StatsResponse
	for range 8 {
		messages, err := p.Stats(ctx, time.Second)
		must.NoError(t, err)
		streams = append(streams, messages)
	}
	for _, messages := range streams {
		<-messages
		<-messages
	}
	must.Less(t, 8*4, sim.Calls()["nvmlDeviceGetPowerUsage"])
	cancel()
	for _, messages := range streams {
		for range messages {
		}
	}
}

// TestStats_values: each statistic has its own reading, unit and whole.
func TestStats_values(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "a100x8-535")
	must.NoError(t, sim.Set(0, map[string]string{
		"power": "123", "utilization": "11", "memory_utilization": "12", "encoder": "13", "decoder": "14", "temperature": "15",
		"memory": "16MiB", "bar1": "17MiB", "ecc_l1": "18", "ecc_l2": "19", "ecc_mem": "20", "clock": "21", "memory_clock": "22",
		"pcie_rx_kbps": "23", "pcie_tx_kbps": "24", "fan": "25", "mem_temperature_c": "26", "energy": "27999",
		"retired_single_bit": "28", "retired_double_bit": "29", "remapped_corrected": "30", "remapped_uncorrected": "31",
		"throttle_reasons": "36", "nvlink_rx_kib": "1000", "nvlink_tx_kib": "1000",
	}))
	p := testPlugin(t, sim)
	all := statistics(t, p, func(s map[string]*device.DeviceStats) bool { return len(s) == 8 })
	id := p.host.Inventory(t.Context()).GPUs[0].UUID
	number := func(n int64, unit string) structs.StatValue {
		return structs.StatValue{IntNumeratorVal: &n, Unit: unit}
	}
	pair := func(n, of int64, unit string) structs.StatValue {
		return structs.StatValue{IntNumeratorVal: &n, IntDenominatorVal: &of, Unit: unit}
	}
	words := func(s string) structs.StatValue { return structs.StatValue{StringVal: &s} }
	notYet := func(unit string) structs.StatValue { v := words("N/A"); v.Unit = unit; return v }
	got := make(map[string]structs.StatValue)
	for name, value := range all[id].Stats.Attributes {
		must.NotEq(t, "", value.Desc, must.Sprint(name))
		got[name] = structs.StatValue{
			IntNumeratorVal: value.IntNumeratorVal, IntDenominatorVal: value.IntDenominatorVal, StringVal: value.StringVal, Unit: value.Unit,
		}
	}
	must.Eq(t, map[string]structs.StatValue{
		"Power usage": pair(123, 400, "W"), "GPU utilization": number(11, "%"), "Memory utilization": number(12, "%"),
		"Encoder utilization": number(13, "%"), "Decoder utilization": number(14, "%"), "Temperature": number(15, "C"),
		"Memory state": pair(16, 40960, "MiB"), "BAR1 buffer state": pair(17, 65536, "MiB"), "ECC L1 errors": number(18, "#"),
		"ECC L2 errors": number(19, "#"), "ECC memory errors": number(20, "#"), "Cores clock": pair(21, 1410, "MHz"),
		"Memory clock": pair(22, 1215, "MHz"), "PCIe received": number(23, "KB/s"), "PCIe sent": number(24, "KB/s"),
		"Fan speed": number(25, "%"), "Memory temperature": number(26, "C"), "Energy": number(27, "J"),
		"Retired pages, single bit": number(28, "#"), "Retired pages, double bit": number(29, "#"),
		"Remapped rows, corrected": number(30, "#"), "Remapped rows, uncorrected": number(31, "#"),
		"Throttle reasons": words("power cap, software thermal"), "NVLink received": notYet("KB/s"), "NVLink sent": notYet("KB/s"),
	}, got)

	// The links tell counters, of which a rate is made once there are two samples.
	moved := func(which string) func(map[string]*device.DeviceStats) bool {
		return func(s map[string]*device.DeviceStats) bool {
			value := s[id].Stats.Attributes[which]
			return value.IntNumeratorVal != nil && *value.IntNumeratorVal > 0
		}
	}
	must.NoError(t, sim.Set(0, map[string]string{"nvlink_rx_kib": "1000000000"}))
	values := statistics(t, p, moved("NVLink received"))[id].Stats.Attributes
	must.Eq(t, 0, *values["NVLink sent"].IntNumeratorVal)
	must.NoError(t, sim.Set(0, map[string]string{"nvlink_tx_kib": "1000000000"}))
	values = statistics(t, p, moved("NVLink sent"))[id].Stats.Attributes
	must.Eq(t, 0, *values["NVLink received"].IntNumeratorVal)
}
