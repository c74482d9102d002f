// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build gpu

package gpuhost_test

import (
	"context"
	"encoding/csv"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// smi asks nvidia-smi for a table of values, a row a GPU.
func smi(t *testing.T, fields ...string) [][]string {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits").Output()
	must.NoError(t, err)
	reader := csv.NewReader(strings.NewReader(string(out)))
	reader.TrimLeadingSpace = true
	rows, err := reader.ReadAll()
	must.NoError(t, err)
	return rows
}

// near says whether a value is about what nvidia-smi prints, if it prints any.
func near(t *testing.T, name, printed string, value *uint64, unit, tolerance float64) {
	t.Helper()
	want, err := strconv.ParseFloat(printed, 64)
	if err != nil {
		return // [N/A]
	}
	must.NotNil(t, value, must.Sprint(name))
	must.InDelta(t, want, float64(*value)/unit, tolerance, must.Sprint(name))
}

// TestGPU compares what we say of the GPUs of this machine with nvidia-smi.
func TestGPU(t *testing.T) {
	host, err := gpuhost.Open(gpuhost.Config{})
	must.NoError(t, err)
	t.Cleanup(host.Close)
	inv := host.Inventory(context.Background())
	must.Eq(t, "", inv.Reason)
	within(t, time.Minute, func() bool { inv = host.Inventory(context.Background()); return complete(inv) }, func() any { return inv })
	now := host.Readings(context.Background())
	rows := smi(t, "uuid", "name", "driver_version", "pci.bus_id", "memory.total", "power.limit", "clocks.max.sm", "compute_cap",
		"temperature.gpu", "memory.used")
	must.Len(t, len(rows), inv.GPUs)
	for i, row := range rows {
		gpu, reading := &inv.GPUs[i], &now.GPUs[i]
		must.Eq(t, row[0], gpu.UUID)
		must.Eq(t, row[1], value(t, gpu.Model))
		must.Eq(t, row[2], inv.Driver.Version)
		must.True(t, strings.HasSuffix(strings.ToUpper(row[3]), gpu.PCIBusID))
		near(t, "memory", row[4], gpu.TotalBytes, 1<<20, 1)
		near(t, "power limit", row[5], gpu.PowerLimitMilliwatts, 1000, 1)
		near(t, "clock", row[6], gpu.MaxSMClockMHz, 1, 0)
		must.Eq(t, row[7], value(t, gpu.ComputeCapability).String())
		must.NoError(t, reading.Err)
		near(t, "temperature", row[8], reading.TemperatureCelsius, 1, 10)
		near(t, "memory used", row[9], reading.MemoryUsedBytes, 1<<20, 1024)
		_, err := host.GPUNode(gpu)
		must.NoError(t, err)
	}
	files, err := host.DriverFiles(context.Background())
	must.NoError(t, err)
	must.SliceNotEmpty(t, files.Libraries)
}
