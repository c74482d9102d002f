// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// fakeHost is a host in memory with what a test puts in.
type fakeHost struct {
	inv      gpuhost.Inventory
	readings gpuhost.Readings
	xids     map[string]map[uint64]uint64
}

func (h *fakeHost) Inventory(context.Context) *gpuhost.Inventory { return &h.inv }
func (h *fakeHost) Readings(context.Context) *gpuhost.Readings   { return &h.readings }
func (h *fakeHost) UVMTools() (bool, error)                      { return false, nil }
func (h *fakeHost) XIDs() map[string]map[uint64]uint64           { return h.xids }

// addGPU adds a GPU that tells nothing but its place.
func (h *fakeHost) addGPU(index int, uuid string, r gpuhost.Reading) *gpuhost.GPU {
	h.inv.GPUs = append(h.inv.GPUs, gpuhost.GPU{Index: index, UUID: uuid, Minor: index, PCIBusID: "0000:01:00.0"})
	r.UUID = uuid
	h.readings.GPUs = append(h.readings.GPUs, r)
	return &h.inv.GPUs[len(h.inv.GPUs)-1]
}

func newFakeHost() *fakeHost {
	h := &fakeHost{}
	h.inv.Driver = gpuhost.Driver{Version: "535.104.05", CUDA: gpuhost.CUDAVersion{Major: 12, Minor: 2}}
	return h
}

// answer asks a handler, without network.
func answer(cfg Config, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler(cfg).ServeHTTP(w, r)
	return w
}

// A host without a driver is no fault of the process: it answers, with the reason
// where v1 gave the error's text.
func TestNoDriver(t *testing.T) {
	h := &fakeHost{}
	h.inv.Reason = "NVML library not found"
	for target, want := range map[string]struct {
		status int
		body   string
	}{
		"/gpu/info":        {500, "internal error, check logs for details\n"},
		"/gpu/status/json": {500, "internal error, check logs for details\n"},
		"/mesos/cli":       {500, "internal error, check logs for details\n"},
		"/docker/cli":      {400, "NVML library not found\n"},
		"/docker/cli/json": {400, "NVML library not found\n"},
	} {
		w := answer(Config{Host: h}, http.MethodGet, target)
		must.Eq(t, want.status, w.Code, must.Sprint(target))
		must.Eq(t, want.body, w.Body.String(), must.Sprint(target))
	}
}

func TestOneUnreadableGPU(t *testing.T) {
	h := newFakeHost()
	lost := &gpuhost.Error{Call: "nvmlDeviceGetPowerUsage", Code: gpuhost.CodeGPUIsLost}
	h.addGPU(0, "GPU-a", gpuhost.Reading{Err: lost})
	must.Eq(t, 500, answer(Config{Host: h}, http.MethodGet, "/gpu/status/json").Code)
	h.addGPU(1, "GPU-b", gpuhost.Reading{TemperatureCelsius: new(uint64(40))})
	w := answer(Config{Host: h}, http.MethodGet, "/gpu/status/json")
	must.Eq(t, 200, w.Code)
	must.StrContains(t, w.Body.String(), `{"Devices":[{"Power":null,"Temperature":null,`)
	must.StrContains(t, w.Body.String(), `{"Power":null,"Temperature":40,`)
}

// A GPU that came after the last sample has its place and no readings.
func TestGPUWithoutSample(t *testing.T) {
	h := newFakeHost()
	h.addGPU(0, "GPU-a", gpuhost.Reading{})
	h.inv.GPUs = append(h.inv.GPUs, gpuhost.GPU{Index: 1, UUID: "GPU-new"})
	w := answer(Config{Host: h}, http.MethodGet, "/gpu/status/json")
	must.Eq(t, 200, w.Code)
	var got Status
	must.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	must.Len(t, 2, got.Devices)
}

// Everything that a card need not tell is null and N/A (cases RST-05), and no
// member is ever missing or new (cases RST-04).
func TestCardThatTellsNothing(t *testing.T) {
	h := newFakeHost()
	h.inv.Driver.CUDA = gpuhost.CUDAVersion{}
	h.addGPU(0, "GPU-a", gpuhost.Reading{Processes: []gpuhost.Process{{PID: 1, Name: "x"}, {PID: 2}}})
	must.Eq(t, `{"Version":{"Driver":"535.104.05","CUDA":null},"Devices":[{"UUID":"GPU-a","Path":"/dev/nvidia0","Model":null,"Power":null,"CPUAffinity":0,`+
		`"PCI":{"BusID":"0000:01:00.0","BAR1":null,"Bandwidth":null},"Clocks":{"Cores":null,"Memory":null},"Topology":null,"Family":null,"Arch":null,"Cores":null,`+
		`"Memory":{"ECC":null,"Global":null,"Shared":null,"Constant":null,"L2Cache":null,"Bandwidth":null}}]}`+"\n",
		answer(Config{Host: h}, http.MethodGet, "/gpu/info/json").Body.String())
	must.Eq(t, `{"Devices":[{"Power":null,"Temperature":null,"Utilization":{"GPU":null,"Memory":null,"Encoder":null,"Decoder":null},`+
		`"Memory":{"GlobalUsed":null,"ECCErrors":{"L1Cache":null,"L2Cache":null,"Global":null}},"Clocks":{"Cores":null,"Memory":null},`+
		`"PCI":{"BAR1Used":null,"Throughput":{"RX":null,"TX":null}},"Processes":[{"PID":1,"Name":"x","MemoryUsed":null},{"PID":2,"Name":null,"MemoryUsed":null}]}]}`+"\n",
		answer(Config{Host: h}, http.MethodGet, "/gpu/status/json").Body.String())
	must.StrContains(t, answer(Config{Host: h}, http.MethodGet, "/gpu/status").Body.String(), "    - PID:     1\n      Name:    x\n      Memory:  N/A\n    - PID:     2\n      Name:    N/A\n      Memory:  N/A\n")
	must.StrContains(t, answer(Config{Host: h}, http.MethodGet, "/", "Accept", "text/html").Body.String(), "<tr><td>2</td><td>N/A</td><td>N/A</td></tr>")
	must.StrContains(t, answer(Config{Host: h}, http.MethodGet, "/gpu/info").Body.String(), "Supported CUDA version:  N/A\n")
}

// Each reading of a pair is shown without the other (HF-2).
func TestHalfOfAPair(t *testing.T) {
	one, two := new(uint64(1000)), new(uint64(2000))
	for _, tc := range []struct {
		reading    gpuhost.Reading
		json, text string
	}{
		{gpuhost.Reading{PCIeRxKBps: one}, `"Throughput":{"RX":1,"TX":null}`, "RX:  1 MB/s\n      TX:  N/A\n"},
		{gpuhost.Reading{PCIeTxKBps: two}, `"Throughput":{"RX":null,"TX":2}`, "RX:  N/A\n      TX:  2 MB/s\n"},
		{gpuhost.Reading{SMClockMHz: one}, `"Clocks":{"Cores":1000,"Memory":null}`, "Cores:    1000 MHz\n    Memory:   N/A\n"},
		{gpuhost.Reading{MemoryClockMHz: two}, `"Clocks":{"Cores":null,"Memory":2000}`, "Cores:    N/A\n    Memory:   2000 MHz\n"},
		{gpuhost.Reading{GPUPercent: one}, `"Utilization":{"GPU":1000,"Memory":null,"Encoder":null,"Decoder":null}`, "GPU:      1000 %\n    Memory:   N/A\n"},
		{gpuhost.Reading{DecoderPercent: two}, `"Utilization":{"GPU":null,"Memory":null,"Encoder":null,"Decoder":2000}`, "Encoder:  N/A\n    Decoder:  2000 %\n"},
	} {
		h := newFakeHost()
		h.addGPU(0, "GPU-a", tc.reading)
		must.StrContains(t, answer(Config{Host: h}, http.MethodGet, "/gpu/status/json").Body.String(), tc.json)
		must.StrContains(t, answer(Config{Host: h}, http.MethodGet, "/gpu/status").Body.String(), tc.text)
	}
}

// v1's endpoints look at no header: neither is a form chosen, nor is anything
// compressed, nor does another site's page get leave to read (HT-6).
func TestHeadersChangeNothing(t *testing.T) {
	h := newFakeHost()
	h.addGPU(0, "GPU-a", gpuhost.Reading{})
	for _, path := range []string{
		"/gpu/info", "/gpu/info/json", "/gpu/status", "/gpu/status/json", "/docker/cli", "/docker/cli/json", "/mesos/cli", "/v1.0/gpu/info",
	} {
		plain := answer(Config{Host: h}, http.MethodGet, path)
		for _, accept := range []string{"application/json", "text/html", "text/plain", "image/png"} {
			asked := answer(Config{Host: h}, http.MethodGet, path, "Accept", accept, "Accept-Encoding", "gzip, br", "Origin", "http://elsewhere")
			must.Eq(t, plain.Body.String(), asked.Body.String(), must.Sprint(path, accept))
			must.Eq(t, plain.Header(), asked.Header(), must.Sprint(path, accept))
		}
		must.Eq(t, "", plain.Header().Get("Content-Encoding"))
		must.Eq(t, "", plain.Header().Get("Access-Control-Allow-Origin"))
	}
}

// A left-out GPU keeps its number (D7).
func TestIndexesOfNVML(t *testing.T) {
	h := newFakeHost()
	h.addGPU(0, "GPU-a", gpuhost.Reading{})
	h.addGPU(2, "GPU-c", gpuhost.Reading{})
	must.StrContains(t, answer(Config{Host: h}, http.MethodGet, "/gpu/info").Body.String(), "\nDevice #2\n")
	must.StrHasSuffix(t, " --device=/dev/nvidia2", answer(Config{Host: h}, http.MethodGet, "/docker/cli?dev=2").Body.String())
	must.Eq(t, "invalid device: 1\n", answer(Config{Host: h}, http.MethodGet, "/docker/cli?dev=1").Body.String())
}

// A broken escape must not turn a selection into all GPUs (D20).
func TestBrokenQuery(t *testing.T) {
	h := newFakeHost()
	h.addGPU(0, "GPU-a", gpuhost.Reading{})
	for _, query := range []string{"dev=0%", "dev=%zz", "vol=%", "dev=0;vol=x"} {
		for _, path := range []string{"/docker/cli", "/v1.0/docker/cli/json"} {
			must.Eq(t, 400, answer(Config{Host: h}, http.MethodGet, path+"?"+query).Code, must.Sprint(query))
		}
		must.Eq(t, 200, answer(Config{Host: h}, http.MethodGet, "/gpu/info?"+query).Code, must.Sprint(query))
	}
}

func TestNVMLErrorsInV1Words(t *testing.T) {
	h := newFakeHost()
	h.inv.Driver.VersionErr = &gpuhost.Error{Call: "nvmlSystemGetDriverVersion", Code: gpuhost.CodeDriverNotLoaded}
	must.Eq(t, "nvml: Driver Not Loaded\n", answer(Config{Host: h}, http.MethodGet, "/docker/cli").Body.String())
	h.inv.Driver.VersionErr = errors.New("something else")
	must.Eq(t, "something else\n", answer(Config{Host: h}, http.MethodGet, "/docker/cli").Body.String())
}

// Widths count characters, and only runs of lines with values are aligned (GI-4).
func TestAlignment(t *testing.T) {
	s := &sheet{}
	s.value(0, "é", "1")
	s.value(1, "bb", "2")
	s.plain(0, "heading")
	s.value(0, "c", "3")
	s.blank()
	must.Eq(t, "é:     1\n  bb:  2\nheading\nc:  3\n\n", string(s.bytes()))
}

func FuzzDockerCLIQuery(f *testing.F) {
	h := newFakeHost()
	h.addGPU(0, "GPU-a", gpuhost.Reading{})
	h.addGPU(1, "GPU-b", gpuhost.Reading{})
	for _, q := range []string{"", "dev=0+1", "dev=GPU-", "vol=nvidia_driver&dev=*", "dev=%", "dev=+"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/docker/cli/json", nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		Handler(Config{Host: h}).ServeHTTP(w, r)
		if w.Code == http.StatusBadRequest {
			return
		}
		must.Eq(t, 200, w.Code)
		var got DockerCLI
		must.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		must.Eq(t, VolumeDriver, got.VolumeDriver)
		must.SliceContains(t, got.Devices, "/dev/nvidiactl")
	})
}
