// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// Names of what a test gives to its child process.
const (
	childName = "SIMHOST_TEST_CHILD"
	childRoot = "SIMHOST_TEST_ROOT"
)

// up makes a host for one test.
func up(t *testing.T, profile string) *simhost.Host {
	t.Helper()
	return upWith(t, simhost.Options{Profile: profile})
}

func upWith(t *testing.T, o simhost.Options) *simhost.Host {
	t.Helper()
	o.Root = filepath.Join(t.TempDir(), "root")
	h, err := simhost.Up(t.Context(), o)
	must.NoError(t, err)
	return h
}

// inChild runs the rest of a test in a process of its own, since a process can
// use go-nvml with one library only. The body has the host open there.
func inChild(t *testing.T, profile string, body func(t *testing.T, h *simhost.Host)) {
	t.Helper()
	if os.Getenv(childName) == t.Name() {
		h, err := simhost.Open(os.Getenv(childRoot))
		must.NoError(t, err)
		body(t, h)
		return
	}
	h := up(t, profile)
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", strings.Join(pattern, "/"))
	child.Env = append(os.Environ(), childName+"="+t.Name(), childRoot+"="+h.Root())
	output, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()+" ") {
		t.Fatalf("child: %v\n%s", err, output)
	}
}

// library opens the host's NVML with go-nvml and starts it.
func library(t *testing.T, h *simhost.Host) nvml.Interface {
	t.Helper()
	lib := nvml.New(nvml.WithLibraryPath(libraryPath(h)))
	must.Eq(t, nvml.SUCCESS, lib.Init())
	return lib
}

func libraryPath(h *simhost.Host) string {
	return filepath.Join(h.Root(), "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
}

// device is a handle that must be there.
func device(t *testing.T, lib nvml.Interface, index int) nvml.Device {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(index)
	must.Eq(t, nvml.SUCCESS, ret)
	return d
}

// soon is the longest that anything which happens at once may take here.
const soon = 20 * time.Second
