// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/restapi"
)

// goldenHost is the host of the first golden data, and its API's address.
func goldenHost(t *testing.T) (host *fixtureHost, api string) {
	t.Helper()
	host, err := openFixture(filepath.Join("testdata", goldenHosts[0], "fixture.json"))
	must.NoError(t, err)
	server := httptest.NewServer(restapi.Handler(restapi.Config{Host: host}))
	t.Cleanup(server.Close)
	return host, server.Listener.Addr().String()
}

// Without NVML there is no GPU to give: v1's text, behind the reason (CL-8).
func TestNoNVML(t *testing.T) {
	got := callInProcess(t, goldenCall{Args: []string{"run", "nvidia/cuda"}}, &fixtureHost{}, "")
	must.Eq(t, outcome{exit: 1, stderr: "nvidia-docker | <time> libnvidia-ml.so.1 was not found\n" +
		"nvidia-docker | <time> Error: could not load NVML library\n"}, got)
}

// An image that is too new is refused as such, whatever else is wrong (IM-3).
func TestCUDAComesFirst(t *testing.T) {
	host, api := goldenHost(t)
	for _, env := range []map[string]string{{"NV_GPU": "99"}, {"NV_GPU": "99", "DOCKER_HOST": "127.0.0.1:"}} {
		got := callInProcess(t, goldenCall{Args: []string{"run", "nvidia/cuda:9.0"}, Env: env}, host, api)
		must.Eq(t, 1, got.exit)
		must.Eq(t, "nvidia-docker | <time> Error: unsupported CUDA version: driver 8.0 < image 9.0\n", got.stderr, must.Sprint(env))
	}
}

// A volume that the label names twice is given once (CL-8, D3).
func TestVolumeNamedTwice(t *testing.T) {
	for _, tc := range []struct {
		label string
		known []string
		want  []string
	}{
		{"nvidia_driver nvidia_driver", nil, []string{"--volume-driver=nvidia-docker", "--volume=nvidia_driver_375.26:/usr/local/nvidia:ro"}},
		{"nvidia_driver foo nvidia_driver", []string{"nvidia_driver_375.26"}, []string{"--volume=nvidia_driver_375.26:/usr/local/nvidia:ro"}},
		{"foo foo", nil, nil},
	} {
		engine := &fakeEngine{Volumes: tc.known}
		run := func(_ context.Context, argv []string, stdout, stderr io.Writer) error {
			if code := engine.run(argv, stdout, stderr); code != 0 {
				return fmt.Errorf("exit status %d", code)
			}
			return nil
		}
		w := &call{docker: newDocker("", run, io.Discard)}
		must.Eq(t, tc.want, w.localVolumes(t.Context(), map[string]string{volumesLabel: tc.label}, "375.26"), must.Sprint(tc.label))
	}
}

var stackBehindError = regexp.MustCompile(`^nvidia-docker \| <time> Error: invalid device: 99\ngoroutine \d+ `)

// NV_DEBUG adds a stack trace to an error, and to nothing else (DM-2).
func TestDebug(t *testing.T) {
	host, _ := goldenHost(t)
	bad := map[string]string{"NV_GPU": "99"}
	must.StrNotContains(t, callInProcess(t, goldenCall{Args: []string{"run", "nvidia/cuda"}, Env: bad}, host, "").stderr, "goroutine")
	bad["NV_DEBUG"] = "1"
	must.RegexMatch(t, stackBehindError, callInProcess(t, goldenCall{Args: []string{"run", "nvidia/cuda"}, Env: bad}, host, "").stderr)
	must.Eq(t, "", callInProcess(t, goldenCall{Args: []string{"ps"}, Env: bad}, host, "").stderr)
}

// An option that takes no value leaves the next word to be the image, each one of
// both lists; one that takes a value does not (CL-5).
func TestEveryBoolean(t *testing.T) {
	for _, option := range []string{
		"--disable-content-trust", "--help", "--init", "--interactive", "-i", "--no-healthcheck", "--oom-kill-disable",
		"--privileged", "--publish-all", "-P", "--read-only", "--tty", "-t", "--detach", "-d", "--rm", "--sig-proxy",
		"--quiet", "-q", "--use-api-socket",
	} {
		for _, verb := range []string{"run", "create"} {
			must.Eq(t, invocation{command: verb, image: "IMAGE", insert: 2}, parseArguments([]string{verb, option, "IMAGE"}), must.Sprint(option))
		}
	}
	for _, option := range []string{"--debug", "-D", "--tls", "--tlsverify", "--version", "-v", "--help", "-h"} {
		must.Eq(t, invocation{command: "run", image: "IMAGE", insert: 2}, parseArguments([]string{option, "run", "IMAGE"}), must.Sprint(option))
	}
	must.Eq(t, invocation{command: "run"}, parseArguments([]string{"run", "--name", "IMAGE"}))
	must.Eq(t, invocation{command: "IMAGE"}, parseArguments([]string{"--host", "run", "IMAGE"}))
}
