//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// TestHostWithoutDriver: without a loaded driver the node stays healthy and
// runs CPU tasks; when the driver is loaded the GPUs appear without a restart.
func TestHostWithoutDriver(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	s.nodeWithGPUs(4)
	must.NoError(t, s.gpus.Unload())
	must.NoError(t, harness.Eventually(s.ctx, 60*time.Second, func() error { return s.healthyGPUs(0) }))
	alloc := s.run(job{name: "cpu", image: imagePlain, script: gpuView})
	must.SliceEmpty(t, s.view(alloc).nodes)
	must.NoError(t, s.gpus.Load())
	must.NoError(t, harness.Eventually(s.ctx, 60*time.Second, func() error { return s.healthyGPUs(4) }))
	s.run(job{name: "gpu", image: imageCUDA75, script: gpuView, gpus: 1})
}

// healthyGPUs is an error unless the server knows exactly that many.
func (s *site) healthyGPUs(want int) error {
	node, err := s.agent.Node()
	if err != nil {
		return err
	}
	healthy := 0
	for _, group := range node.NodeResources.Devices {
		for _, d := range group.Instances {
			if d.Healthy {
				healthy++
			}
		}
	}
	if healthy != want {
		return fmt.Errorf("%d healthy GPUs, want %d", healthy, want)
	}
	return nil
}

// TestBrokenNVMLLibrary: a file that is no library is a reason, not a crash.
func TestBrokenNVMLLibrary(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	must.NoError(t, os.WriteFile(broken, []byte("not a library"), 0o644))
	s := newSite(t, "none", func(cfg *harness.AgentConfig) {
		cfg.DriverGPU = "nvml_library = " + strconv.Quote(broken)
		cfg.DeviceConfig = "nvml_library = " + strconv.Quote(broken)
	})
	must.NoError(t, s.healthyGPUs(0))
	s.run(job{name: "cpu", image: imagePlain, script: "sleep 600"})
}

func TestUnknownImage(t *testing.T) {
	s := newSite(t, "none", nil)
	_, err := s.agent.Run(job{name: "nowhere", image: "127.0.0.1:1/no/such:image", script: "true"}.hcl())
	must.NoError(t, err)
	alloc, err := s.agent.WaitAlloc(s.ctx, "nowhere", api.AllocClientStatusFailed)
	must.NoError(t, err)
	must.StrContains(t, eventsOf(s, alloc), "Failed to pull `127.0.0.1:1/no/such:image`")
	must.NoError(t, s.nothingLeft("containers", func() []string { return s.containers(s.ctx) }))
}

// TestWrongPluginOptions: the agent does not start, and says where the fault is.
// The plugins that it started to check options do not outlive it.
func TestWrongPluginOptions(t *testing.T) {
	for _, tc := range []struct{ name, gpu, want string }{
		{"unknown option", "colour = \"green\"", "colour"},
		{"wrong value", "volume_mode = \"magic\"", "gpu.volume_mode"},
		{"relative path", "volumes_path = \"volumes\"", "gpu.volumes_path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, bin := t.TempDir(), os.Getenv("GPU_DOCKER_BIN")
			_, err := harness.StartAgent(t.Context(), harness.AgentConfig{
				Dir:       dir,
				NomadPath: filepath.Join(bin, "nomad"), PluginDir: filepath.Join(bin, "plugins"),
				DriverRoot: dir, DriverGPU: tc.gpu,
			})
			must.Error(t, err)
			log, readErr := os.ReadFile(filepath.Join(dir, "gpu-docker-test.log"))
			must.NoError(t, readErr)
			must.StrContains(t, string(log), tc.want)
			s := &site{T: t, bin: bin}
			must.NoError(t, s.nothingLeft("plugin processes", s.pluginProcesses))
		})
	}
}

// TestTakenPort: another program holds port 3476. The driver says so, runs
// tasks all the same, and takes the port over when it is free.
func TestTakenPort(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:3476")
	must.NoError(t, err)
	s := newSite(t, "k80x4-352", nil)
	alloc := s.run(job{name: "gpu", image: imageCUDA75, script: gpuView, gpus: 1})
	must.Len(t, 1, s.view(alloc).nodes)
	must.NoError(t, holder.Close())
	must.NoError(t, harness.Eventually(s.ctx, 90*time.Second, func() error {
		node, err := s.agent.Node()
		if err != nil {
			return err
		}
		if api := node.Attributes["driver.gpu-docker.api"]; api != "127.0.0.1:3476" {
			return fmt.Errorf("the API is at %q", api)
		}
		return nil
	}))
	must.StrContains(t, httpGet(t, "/v1.0/docker/cli"), "nvidia_driver_352.39")
}

// TestVolumeDriver: what Docker shows of the driver volume, and names that
// would leave its folder.
func TestVolumeDriver(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	s.nodeWithGPUs(4)
	out, err := harness.Docker(s.ctx, "volume", "create", "-d", "nvidia-docker", "--name", "nvidia_driver_352.39")
	must.NoError(t, err)
	must.Eq(t, "nvidia_driver_352.39\n", out)
	out, err = harness.Docker(s.ctx, "volume", "inspect", "-f", "{{.Name}} {{.Driver}} {{.Mountpoint}}", "nvidia_driver_352.39")
	must.NoError(t, err)
	must.Eq(t, "nvidia_driver_352.39 nvidia-docker /var/lib/nvidia-docker/volumes/nvidia_driver/352.39\n", out)
	tree, err := exec.Command("find", "/var/lib/nvidia-docker/volumes/nvidia_driver/352.39", "-mindepth", "2", "-name", "lib*").Output()
	must.NoError(t, err)
	must.Eq(t, 47, len(strings.Fields(string(tree))))
	for _, name := range []string{"nvidia_driver_..", "nvidia_driver_1/2", "nvidia_driver_375.26", "other_352.39"} {
		_, err := harness.Docker(s.ctx, "volume", "create", "-d", "nvidia-docker", "--name", name)
		must.Error(t, err, must.Sprintf("volume %q was made", name))
	}
}
