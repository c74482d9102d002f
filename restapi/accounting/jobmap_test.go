// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// mapped is a host whose second GPU is cut into MIG devices.
var mapped = &gpuhost.Inventory{GPUs: []gpuhost.GPU{
	{UUID: "GPU-a", Index: 0},
	{UUID: "GPU-b", Index: 3, MIGDevices: []gpuhost.MIGDevice{{UUID: "MIG-1", GPUInstanceID: 7}, {UUID: "MIG-2", GPUInstanceID: 11}}},
}}

func holds(alloc string, uuids ...string) []restapi.Allocation {
	held := hold(time.Now(), "prod", uuids...)
	for i := range held {
		held[i].AllocID = alloc
	}
	return held
}

// files are what a directory tells, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	told := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must.NoError(t, err)
		told[e.Name()] = string(text)
	}
	return told
}

func TestJobMap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "map")
	m := &jobMap{dir: dir}
	must.NoError(t, m.write(nil, mapped, time.Now()))
	must.DirNotExists(t, dir, must.Sprint("nothing to tell"))

	two := append(holds("two", "GPU-a::1", "MIG-2"), holds("one", "GPU-a::0", "GPU-a::2")...)
	must.NoError(t, m.write(two, mapped, time.Now()))
	must.Eq(t, map[string]string{"0": "one\ntwo\n", "3.11": "two\n"}, files(t, dir))

	must.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "12"), []byte("an earlier run's"), 0o600))
	must.NoError(t, m.write(holds("three", "MIG-1"), mapped, time.Now()))
	must.Eq(t, map[string]string{"3.7": "three\n", "notes.txt": "mine"}, files(t, dir))

	must.NoError(t, m.write(nil, nil, time.Now()))
	must.Eq(t, map[string]string{"notes.txt": "mine"}, files(t, dir))
	must.NoError(t, (&jobMap{}).write(two, mapped, time.Now()), must.Sprint("no directory, no files"))
}

// TestJobMap_restart: a plugin that gets its tasks back one by one takes no
// other's line away, until it must have all.
func TestJobMap_restart(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	must.NoError(t, (&jobMap{dir: dir}).write(append(holds("two", "GPU-a::1", "MIG-1"), holds("one", "GPU-a::0", "MIG-2")...), mapped, now))

	m := &jobMap{dir: dir, settled: now.Add(time.Minute)}
	must.NoError(t, m.write(holds("two", "GPU-a::1"), mapped, now))
	must.Eq(t, map[string]string{"0": "one\ntwo\n", "3.7": "two\n", "3.11": "one\n"}, files(t, dir), must.Sprint("all may come back"))
	must.NoError(t, m.write(append(holds("two", "GPU-a::1"), holds("new", "MIG-1")...), mapped, now))
	must.Eq(t, map[string]string{"0": "one\ntwo\n", "3.7": "new\ntwo\n", "3.11": "one\n"}, files(t, dir))
	must.NoError(t, m.write(holds("two", "GPU-a::1"), mapped, now))
	must.Eq(t, map[string]string{"0": "one\ntwo\n", "3.7": "two\n", "3.11": "one\n"}, files(t, dir), must.Sprint("new has ended"))
	must.NoError(t, m.write(holds("two", "GPU-a::1"), mapped, now.Add(time.Minute)))
	must.Eq(t, map[string]string{"0": "two\n"}, files(t, dir))
}

// TestJobMap_unknown: while the driver does not tell of a device that is held, as
// after a restart with a hanging card, what the directory tells stays.
func TestJobMap_unknown(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	must.NoError(t, (&jobMap{dir: dir}).write(append(holds("one", "GPU-a"), holds("two", "MIG-1")...), mapped, now))
	m := &jobMap{dir: dir}
	for _, inv := range []*gpuhost.Inventory{nil, {Reason: "NVML does not answer"}} {
		must.NoError(t, m.write(append(holds("one", "GPU-a"), holds("two", "MIG-1")...), inv, now))
		must.Eq(t, map[string]string{"0": "one\n", "3.7": "two\n"}, files(t, dir))
	}
	must.NoError(t, m.write(holds("one", "GPU-a"), nil, now))
	must.Eq(t, map[string]string{"0": "one\n"}, files(t, dir), must.Sprint("two has ended"))
	must.NoError(t, m.write(holds("one", "GPU-a"), mapped, now))
	must.NoError(t, m.write(holds("three", "GPU-a"), mapped, now))
	must.Eq(t, map[string]string{"0": "three\n"}, files(t, dir))
}

// TestJobMap_trouble: what cannot be written is told with the directory, and
// written when it can be.
func TestJobMap_trouble(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "map")
	must.NoError(t, os.WriteFile(dir, nil, 0o600))
	m := &jobMap{dir: dir}
	err := m.write(holds("one", "GPU-a"), mapped, time.Now())
	must.ErrorContains(t, err, "gpu.job_mapping_dir \""+dir+"\"")
	must.NoError(t, os.Remove(dir))
	must.NoError(t, m.write(holds("one", "GPU-a"), mapped, time.Now()))
	must.Eq(t, map[string]string{"0": "one\n"}, files(t, dir))
}

// TestLedgerMapsJobs: a task is in the map as soon as its account is open, and
// leaves it with that.
func TestLedgerMapsJobs(t *testing.T) {
	dir := t.TempDir()
	l := New(Config{Host: &gauge{r: gpuhost.Readings{Inventory: mapped}}, JobMappingDir: dir})
	stopped := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(stopped); l.Run(ctx) }()
	defer func() { stop(); <-stopped }()

	l.Begin("task", holds("one", "GPU-a"))
	tells := func(want map[string]string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.Timeout(10*time.Second), wait.Gap(time.Millisecond), wait.BoolFunc(func() bool {
			entries, err := os.ReadDir(dir)
			text, _ := os.ReadFile(filepath.Join(dir, "0")) // may be gone by now
			return err == nil && len(entries) == len(want) && string(text) == want["0"]
		})))
	}
	tells(map[string]string{"0": "one\n"})
	must.NotNil(t, l.End(t.Context(), "task", time.Now()))
	tells(map[string]string{})
}
