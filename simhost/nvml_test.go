// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// reading is one fact as go-nvml gives it: the key of a profile, the function
// that must be there for it, and how to ask.
type reading struct {
	key, symbol string
	ask         func(nvml.Device) (any, nvml.Return)
}

func ask[T any](f func(nvml.Device) (T, nvml.Return)) func(nvml.Device) (any, nvml.Return) {
	return func(d nvml.Device) (any, nvml.Return) { return f(d) }
}

func clockOf(f func(nvml.Device, nvml.ClockType) (uint32, nvml.Return), kind nvml.ClockType) func(nvml.Device) (any, nvml.Return) {
	return func(d nvml.Device) (any, nvml.Return) { return f(d, kind) }
}

func eccOf(kind nvml.MemoryErrorType, lifetime nvml.EccCounterType, place nvml.MemoryLocation) func(nvml.Device) (any, nvml.Return) {
	return func(d nvml.Device) (any, nvml.Return) { return d.GetMemoryErrorCounter(kind, lifetime, place) }
}

func fieldOf(id uint32) func(nvml.Device) (any, nvml.Return) {
	return func(d nvml.Device) (any, nvml.Return) {
		values := []nvml.FieldValue{{FieldId: id}}
		if ret := d.GetFieldValues(values); ret != nvml.SUCCESS {
			return nil, ret
		}
		var n uint64
		for i, b := range values[0].Value {
			n |= uint64(b) << (8 * i)
		}
		return n, nvml.Return(values[0].NvmlReturn)
	}
}

// member picks one number of an answer with several.
func member[T any](f func(nvml.Device) (T, nvml.Return), pick func(T) any) func(nvml.Device) (any, nvml.Return) {
	return func(d nvml.Device) (any, nvml.Return) {
		all, ret := f(d)
		return pick(all), ret
	}
}

var readings = []reading{
	{"name", "nvmlDeviceGetName", ask(nvml.Device.GetName)},
	{"uuid", "nvmlDeviceGetUUID", ask(nvml.Device.GetUUID)},
	{"serial", "nvmlDeviceGetSerial", ask(nvml.Device.GetSerial)},
	{"minor", "nvmlDeviceGetMinorNumber", ask(nvml.Device.GetMinorNumber)},
	{"cores", "nvmlDeviceGetNumGpuCores", ask(nvml.Device.GetNumGpuCores)},
	{"mem_used_bytes", "nvmlDeviceGetMemoryInfo", member(nvml.Device.GetMemoryInfo, func(m nvml.Memory) any { return m.Used })},
	{"mem_used_bytes", "nvmlDeviceGetMemoryInfo_v2", member(nvml.Device.GetMemoryInfo_v2, func(m nvml.Memory_v2) any { return m.Used })},
	{"bar1_total_bytes", "nvmlDeviceGetBAR1MemoryInfo", member(nvml.Device.GetBAR1MemoryInfo, func(m nvml.BAR1Memory) any { return m.Bar1Total })},
	{"bar1_used_bytes", "nvmlDeviceGetBAR1MemoryInfo", member(nvml.Device.GetBAR1MemoryInfo, func(m nvml.BAR1Memory) any { return m.Bar1Used })},
	{"power_limit_mw", "nvmlDeviceGetPowerManagementLimit", ask(nvml.Device.GetPowerManagementLimit)},
	{"power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit", ask(nvml.Device.GetEnforcedPowerLimit)},
	{"power_usage_mw", "nvmlDeviceGetPowerUsage", ask(nvml.Device.GetPowerUsage)},
	{"power_usage_mw", "nvmlDeviceGetFieldValues", fieldOf(nvml.FI_DEV_POWER_INSTANT)},
	{"energy_mj", "nvmlDeviceGetTotalEnergyConsumption", ask(nvml.Device.GetTotalEnergyConsumption)},
	{"energy_mj", "nvmlDeviceGetFieldValues", fieldOf(nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION)},
	{"mem_temperature_c", "nvmlDeviceGetFieldValues", fieldOf(nvml.FI_DEV_MEMORY_TEMP)},
	{"temperature_c", "nvmlDeviceGetTemperature", func(d nvml.Device) (any, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }},
	{"util_gpu_pct", "nvmlDeviceGetUtilizationRates", member(nvml.Device.GetUtilizationRates, func(u nvml.Utilization) any { return u.Gpu })},
	{"util_mem_pct", "nvmlDeviceGetUtilizationRates", member(nvml.Device.GetUtilizationRates, func(u nvml.Utilization) any { return u.Memory })},
	{"util_enc_pct", "nvmlDeviceGetEncoderUtilization", func(d nvml.Device) (any, nvml.Return) { u, _, ret := d.GetEncoderUtilization(); return u, ret }},
	{"util_dec_pct", "nvmlDeviceGetDecoderUtilization", func(d nvml.Device) (any, nvml.Return) { u, _, ret := d.GetDecoderUtilization(); return u, ret }},
	{"clock_sm_mhz", "nvmlDeviceGetClockInfo", clockOf(nvml.Device.GetClockInfo, nvml.CLOCK_SM)},
	{"clock_mem_mhz", "nvmlDeviceGetClockInfo", clockOf(nvml.Device.GetClockInfo, nvml.CLOCK_MEM)},
	{"clock_video_mhz", "nvmlDeviceGetClockInfo", clockOf(nvml.Device.GetClockInfo, nvml.CLOCK_VIDEO)},
	{"clock_max_sm_mhz", "nvmlDeviceGetMaxClockInfo", clockOf(nvml.Device.GetMaxClockInfo, nvml.CLOCK_SM)},
	{"clock_max_mem_mhz", "nvmlDeviceGetMaxClockInfo", clockOf(nvml.Device.GetMaxClockInfo, nvml.CLOCK_MEM)},
	{"pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", ask(nvml.Device.GetMaxPcieLinkGeneration)},
	{"pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", ask(nvml.Device.GetMaxPcieLinkWidth)},
	{"pcie_gen_max", "nvmlDeviceGetCurrPcieLinkGeneration", ask(nvml.Device.GetCurrPcieLinkGeneration)},
	{"pcie_rx_kbps", "nvmlDeviceGetPcieThroughput", func(d nvml.Device) (any, nvml.Return) { return d.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES) }},
	{"pcie_tx_kbps", "nvmlDeviceGetPcieThroughput", func(d nvml.Device) (any, nvml.Return) { return d.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES) }},
	{"pcie_replays", "nvmlDeviceGetPcieReplayCounter", ask(nvml.Device.GetPcieReplayCounter)},
	{"ecc_l1", "nvmlDeviceGetMemoryErrorCounter", eccOf(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_L1_CACHE)},
	{"ecc_l2", "nvmlDeviceGetMemoryErrorCounter", eccOf(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_L2_CACHE)},
	{"ecc_mem", "nvmlDeviceGetMemoryErrorCounter", eccOf(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_DEVICE_MEMORY)},
	{"ecc_corr_mem", "nvmlDeviceGetMemoryErrorCounter", eccOf(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_DEVICE_MEMORY)},
	{"ecc_agg_mem", "nvmlDeviceGetMemoryErrorCounter", eccOf(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_DEVICE_MEMORY)},
	{"retired_double_bit", "nvmlDeviceGetRetiredPages", func(d nvml.Device) (any, nvml.Return) {
		pages, ret := d.GetRetiredPages(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
		return len(pages), ret
	}},
	{"remapped_uncorrected", "nvmlDeviceGetRemappedRows", func(d nvml.Device) (any, nvml.Return) { _, n, _, _, ret := d.GetRemappedRows(); return n, ret }},
	{"performance_state", "nvmlDeviceGetPerformanceState", member(nvml.Device.GetPerformanceState, func(p nvml.Pstates) any { return int(p) })},
	{"throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", ask(nvml.Device.GetCurrentClocksThrottleReasons)},
	{"fan_pct", "nvmlDeviceGetFanSpeed", ask(nvml.Device.GetFanSpeed)},
	{"fabric_state", "nvmlDeviceGetGpuFabricInfo", member(nvml.Device.GetGpuFabricInfo, func(f nvml.GpuFabricInfo) any { return f.State })},
	{"fabric_health_summary", "nvmlDeviceGetGpuFabricInfoV", func(d nvml.Device) (any, nvml.Return) {
		f, ret := d.GetGpuFabricInfoV().V3()
		return f.HealthSummary, ret
	}},
	{"fabric_health_mask", "nvmlDeviceGetGpuFabricInfoV", func(d nvml.Device) (any, nvml.Return) {
		f, ret := d.GetGpuFabricInfoV().V2()
		return f.HealthMask, ret
	}},
	{"numa_node_id", "nvmlDeviceGetNumaNodeId", ask(nvml.Device.GetNumaNodeId)},
	{"mig_max", "nvmlDeviceGetMaxMigDeviceCount", ask(nvml.Device.GetMaxMigDeviceCount)},
	{"nvlink_version", "nvmlDeviceGetNvLinkVersion", func(d nvml.Device) (any, nvml.Return) { return d.GetNvLinkVersion(0) }},
}

// told are the values of a profile's file for one GPU, its defaults included.
type told map[string]any

func readProfile(t *testing.T, text []byte) (gpus []told) {
	t.Helper()
	type object struct {
		NVML told `json:"nvml"`
	}
	var profile struct {
		Defaults object   `json:"device_defaults"`
		Devices  []object `json:"devices"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	must.NoError(t, decoder.Decode(&profile))
	for _, d := range profile.Devices {
		all := told{}
		for _, part := range []told{profile.Defaults.NVML, d.NVML} {
			for k, v := range part {
				all[k] = v
			}
		}
		gpus = append(gpus, all)
	}
	return gpus
}

// compare asks everything that the library can tell about each GPU.
func compare(t *testing.T, lib nvml.Interface, gpus []told) {
	count, ret := lib.DeviceGetCount()
	must.Eq(t, nvml.SUCCESS, ret)
	must.Eq(t, len(gpus), count)
	for i, want := range gpus {
		d := device(t, lib, i)
		for _, r := range readings {
			if lib.Extensions().LookupSymbol(r.symbol) != nil {
				continue // this driver has no such function
			}
			value, ret := r.ask(d)
			what := fmt.Sprintf("GPU %d, %s by %s", i, r.key, r.symbol)
			if want[r.key] == nil {
				must.Eq(t, nvml.ERROR_NOT_SUPPORTED, ret, must.Sprint(what))
				continue
			}
			must.Eq(t, nvml.SUCCESS, ret, must.Sprint(what))
			must.Eq(t, fmt.Sprint(want[r.key]), fmt.Sprint(value), must.Sprint(what))
		}
		compareProcesses(t, lib, d, want["processes"])
	}
}

func compareProcesses(t *testing.T, lib nvml.Interface, d nvml.Device, want any) {
	if lib.Extensions().LookupSymbol("nvmlDeviceGetComputeRunningProcesses") != nil {
		return
	}
	got, ret := d.GetComputeRunningProcesses()
	if want == nil {
		must.Eq(t, nvml.ERROR_NOT_SUPPORTED, ret)
		return
	}
	must.Eq(t, nvml.SUCCESS, ret)
	for _, w := range want.([]any) {
		process := w.(map[string]any)
		if process["type"] == "G" {
			continue
		}
		must.SliceNotEmpty(t, got)
		must.Eq(t, fmt.Sprint(process["pid"]), fmt.Sprint(got[0].Pid))
		must.Eq(t, fmt.Sprint(process["used_bytes"]), fmt.Sprint(got[0].UsedGpuMemory))
		name, ret := lib.SystemGetProcessName(int(got[0].Pid))
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, process["name"].(string), name)
		got = got[1:]
	}
	must.SliceEmpty(t, got)
}

// TestReadings reads every built-in profile back through go-nvml.
func TestReadings(t *testing.T) {
	profiles, err := simhost.Profiles()
	must.NoError(t, err)
	for _, p := range profiles {
		t.Run(p.Name, func(t *testing.T) {
			inChild(t, p.Name, func(t *testing.T, h *simhost.Host) {
				if p.Name == "none" {
					must.Eq(t, nvml.ERROR_DRIVER_NOT_LOADED, nvml.New(nvml.WithLibraryPath(libraryPath(h))).Init())
					return
				}
				lib := library(t, h)
				version, ret := lib.SystemGetDriverVersion()
				must.Eq(t, nvml.SUCCESS, ret)
				must.Eq(t, p.DriverVersion, version)
				text, err := simhost.ProfileText(p.Name)
				must.NoError(t, err)
				compare(t, lib, readProfile(t, text))
			})
		})
	}
}

// TestFixtures takes the golden hosts' files as profiles (nvidia-docker-v1 §14).
func TestFixtures(t *testing.T) {
	for _, name := range []string{"k80x4-352.39", "titanx4-361.48", "ecc2-375.26", "zero-340.29"} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/fixtures/" + name + ".json"
			inChild(t, file, func(t *testing.T, h *simhost.Host) {
				text, err := os.ReadFile(file)
				must.NoError(t, err)
				compare(t, library(t, h), readProfile(t, text))
			})
		})
	}
}

// TestBuiltinEqualsFixture: two built-in profiles tell what their fixtures tell.
func TestBuiltinEqualsFixture(t *testing.T) {
	for name, fixture := range map[string]string{"k80x4-352": "k80x4-352.39", "titanx4-361": "titanx4-361.48"} {
		own, err := simhost.ProfileText(name)
		must.NoError(t, err)
		text, err := os.ReadFile("testdata/fixtures/" + fixture + ".json")
		must.NoError(t, err)
		ours := readProfile(t, own)
		for i, want := range readProfile(t, text) {
			for key, value := range want {
				must.Eq(t, value, ours[i][key], must.Sprintf("%s: GPU %d, %s", name, i, key))
			}
		}
	}
}

// TestIdentity finds GPUs by every name and gives the addresses in both lengths.
func TestIdentity(t *testing.T) {
	inChild(t, "titanx4-361", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		for i, want := range []string{"0000:05:00.0", "0000:06:00.0", "0000:09:00.0", "0000:0A:00.0"} {
			d := device(t, lib, i)
			pci, ret := d.GetPciInfo() // version 2 on this driver
			must.Eq(t, nvml.SUCCESS, ret)
			must.Eq(t, want, cString(pci.BusIdLegacy[:]))
			must.Eq(t, 0x17C210DE, pci.PciDeviceId)
			uuid, _ := d.GetUUID()
			for _, found := range []func() (nvml.Device, nvml.Return){
				func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID(uuid) },
				func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId(want) },
				func() (nvml.Device, nvml.Return) {
					return lib.DeviceGetHandleByPciBusId("0000" + strings.ToLower(want))
				},
			} {
				other, ret := found()
				must.Eq(t, nvml.SUCCESS, ret)
				index, ret := other.GetIndex()
				must.Eq(t, nvml.SUCCESS, ret)
				must.Eq(t, i, index)
			}
			minor, _ := d.GetMinorNumber()
			must.Eq(t, 3-i, minor)
			brand, ret := d.GetBrand()
			must.Eq(t, nvml.SUCCESS, ret)
			must.Eq(t, nvml.BRAND_GEFORCE, brand)
		}
		_, ret := lib.DeviceGetHandleByUUID("GPU-none")
		must.Eq(t, nvml.ERROR_NOT_FOUND, ret)
		_, ret = lib.DeviceGetHandleByIndex(4)
		must.Eq(t, nvml.ERROR_INVALID_ARGUMENT, ret)
		level, ret := lib.DeviceGetTopologyCommonAncestor(device(t, lib, 3), device(t, lib, 0))
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, nvml.TOPOLOGY_HOSTBRIDGE, level)
	})
}

func cString(text []int8) string {
	var b strings.Builder
	for _, c := range text {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// TestNewDriver covers what only new libraries have.
func TestNewDriver(t *testing.T) {
	inChild(t, "a100x8-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		d := device(t, lib, 2)
		pci, ret := d.GetPciInfo()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, "00000000:47:00.0", cString(pci.BusId[:]))
		architecture, ret := d.GetArchitecture()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, nvml.DEVICE_ARCH_AMPERE, architecture)
		major, minor, ret := d.GetCudaComputeCapability()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, "8.0", strconv.Itoa(major)+"."+strconv.Itoa(minor))
		version, ret := lib.SystemGetCudaDriverVersion_v2()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, 12020, version)
		memory, ret := d.GetMemoryInfo_v2()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, memory.Total, memory.Reserved+memory.Used+memory.Free)
		status, ret := d.GetP2PStatus(device(t, lib, 7), nvml.P2P_CAPS_INDEX_READ)
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, nvml.P2P_STATUS_OK, status)
		state, ret := d.GetNvLinkState(11)
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, nvml.FEATURE_ENABLED, state)
		_, ret = d.GetNvLinkState(12)
		must.Eq(t, nvml.ERROR_INVALID_ARGUMENT, ret)
		current, pending, ret := d.GetEccMode()
		must.Eq(t, nvml.SUCCESS, ret)
		must.True(t, current == nvml.FEATURE_ENABLED && pending == nvml.FEATURE_ENABLED)
	})
}

// TestMIG walks the MIG devices of a mixed node (cases DEV-09).
func TestMIG(t *testing.T) {
	inChild(t, "a100-mig-535", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		must.Eq(t, []string{}, migNames(t, device(t, lib, 0)))
		must.Eq(t, slices.Repeat([]string{"NVIDIA A100-PCIE-40GB MIG 1g.5gb"}, 7), migNames(t, device(t, lib, 1)))
		must.NoError(t, h.Set(3, map[string]string{"mig": "4g.20gb,1g.5gb"}))
		must.Eq(t, []string{"NVIDIA A100-PCIE-40GB MIG 4g.20gb", "NVIDIA A100-PCIE-40GB MIG 1g.5gb"}, migNames(t, device(t, lib, 3)))
		mig, _ := device(t, lib, 3).GetMigDeviceHandleByIndex(0)
		attributes, ret := mig.GetAttributes()
		must.Eq(t, nvml.SUCCESS, ret)
		must.Eq(t, 4, attributes.GpuInstanceSliceCount)
		must.Eq(t, 56, attributes.MultiprocessorCount)
		must.Eq(t, 19456, attributes.MemorySizeMB)
		uuid, ret := mig.GetUUID()
		must.Eq(t, nvml.SUCCESS, ret)
		found, ret := lib.DeviceGetHandleByUUID(uuid)
		must.Eq(t, nvml.SUCCESS, ret)
		is, ret := found.IsMigDeviceHandle()
		must.True(t, is && ret == nvml.SUCCESS)
		id, ret := found.GetGpuInstanceId()
		must.True(t, id == 1 && ret == nvml.SUCCESS)
		parent, ret := found.GetDeviceHandleFromMigDeviceHandle()
		must.Eq(t, nvml.SUCCESS, ret)
		index, _ := parent.GetIndex()
		must.Eq(t, 3, index)
		must.NoError(t, h.Set(3, map[string]string{"mig": "off"}))
		_, ret = found.GetUUID()
		must.Eq(t, nvml.ERROR_NOT_FOUND, ret)
		mode, _, ret := parent.GetMigMode()
		must.True(t, mode == nvml.DEVICE_MIG_DISABLE && ret == nvml.SUCCESS)
	})
}

func migNames(t *testing.T, parent nvml.Device) []string {
	t.Helper()
	names := []string{}
	slots, ret := parent.GetMaxMigDeviceCount()
	must.Eq(t, nvml.SUCCESS, ret)
	for i := range slots {
		d, ret := parent.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		must.Eq(t, nvml.SUCCESS, ret)
		name, ret := d.GetName()
		must.Eq(t, nvml.SUCCESS, ret)
		memory, ret := d.GetMemoryInfo()
		must.True(t, ret == nvml.SUCCESS && memory.Total > 0)
		names = append(names, name)
	}
	return names
}

// TestMissingSymbols: an old driver's library lacks functions (cases DEV-01).
func TestMissingSymbols(t *testing.T) {
	inChild(t, "old-340", func(t *testing.T, h *simhost.Host) {
		lib := library(t, h)
		for symbol, there := range map[string]bool{"nvmlInit_v2": true, "nvmlDeviceGetPciInfo_v2": true, "nvmlDeviceGetPciInfo_v3": false,
			"nvmlDeviceGetComputeRunningProcesses": false, "nvmlDeviceGetBAR1MemoryInfo": false, "nvmlDeviceGetMigMode": false} {
			must.Eq(t, there, lib.Extensions().LookupSymbol(symbol) == nil, must.Sprint(symbol))
		}
	})
}
