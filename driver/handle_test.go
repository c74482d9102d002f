// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

var update = flag.Bool("update", false, "rewrite golden files")

// exampleState has every field set.
func exampleState() *taskState {
	return &taskState{
		ContainerID: "c0ffee", Image: "img:1", ImageID: "sha256:1", StartedAt: 1700000000000000001,
		GPUs: []string{"GPU-a::0", "GPU-b"}, NVIDIADriver: "535.104.05", Foreign: []int{7, 20}, OnUnhealthy: "fail",
		TTY: true, CPUSetByUser: true, NodeMHz: 5000.5,
		PortMap: map[string]int{"http": 80}, IP: "10.0.0.2", AutoAdvertise: true,
		LogsMaxFiles: 3, LogsMaxFileSizeMiB: 5,
	}
}

func TestHandleRoundTrip(t *testing.T) {
	state := exampleState()
	for i := range reflect.TypeFor[taskState]().NumField() {
		must.False(t, reflect.ValueOf(*state).Field(i).IsZero(), must.Sprintf("field %d is not tested", i))
	}
	h, err := encodeHandle(&drivers.TaskConfig{ID: "x"}, state)
	must.NoError(t, err)
	got, err := decodeHandle(h)
	must.NoError(t, err)
	must.Eq(t, state, got)
	must.Eq(t, &drivers.DriverNetwork{PortMap: map[string]int{"http": 80}, IP: "10.0.0.2", AutoAdvertise: true}, got.network())
}

// TestHandlesOfEarlierVersions: recovery is an upgrade path. testdata keeps the
// state of each released handle version.
func TestHandlesOfEarlierVersions(t *testing.T) {
	file := filepath.Join("testdata", "handle-v1.base64")
	if *update {
		h, err := encodeHandle(&drivers.TaskConfig{ID: "x"}, exampleState())
		must.NoError(t, err)
		must.NoError(t, os.MkdirAll("testdata", 0o755))
		must.NoError(t, os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(h.DriverState)+"\n"), 0o644))
	}
	text, err := os.ReadFile(file)
	must.NoError(t, err)
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	must.NoError(t, err)
	got, err := decodeHandle(&drivers.TaskHandle{Version: 1, Config: &drivers.TaskConfig{ID: "x"}, DriverState: data})
	must.NoError(t, err)
	must.Eq(t, exampleState(), got)
}
