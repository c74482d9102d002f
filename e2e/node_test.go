//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// TestNodeTellsItsGPUs: the fingerprint of both plugins, as the server has it.
func TestNodeTellsItsGPUs(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	s.nodeWithGPUs(4)
	node := s.nodeWhen(func(node *api.Node) error {
		if api, volume := node.Attributes["driver.gpu-docker.api"], node.Attributes["driver.gpu-docker.volume"]; api == "" || volume == "" {
			return fmt.Errorf("the node tells the API at %q, volume %q", api, volume)
		}
		return nil
	})

	must.Len(t, 1, node.NodeResources.Devices)
	group := node.NodeResources.Devices[0]
	must.Eq(t, "nvidia/gpu/Tesla K80", group.Vendor+"/"+group.Type+"/"+group.Name)
	attribute := func(name string) string {
		must.MapContainsKey(t, group.Attributes, name)
		return group.Attributes[name].String()
	}
	must.Eq(t, "352.39", attribute("driver_version"))
	must.Eq(t, "7.5", attribute("cuda_version"))
	must.Eq(t, "3.7", attribute("compute_capability"))
	must.Eq(t, "Kepler", attribute("architecture"))
	must.Eq(t, "149 W", attribute("power"))
	must.Eq(t, "16384 MiB", attribute("bar1"))
	must.Eq(t, "875 MHz", attribute("cores_clock"))
	must.Eq(t, "2505 MHz", attribute("memory_clock"))

	for name, want := range map[string]string{
		"driver.gpu-docker":               "1",
		"driver.gpu-docker.nvidia_driver": "352.39",
		"driver.gpu-docker.cuda":          "7.5",
		"driver.gpu-docker.gpus":          "4",
		"driver.gpu-docker.volume":        "nvidia_driver_352.39",
		"driver.gpu-docker.api":           "127.0.0.1:3476",
	} {
		must.Eq(t, want, node.Attributes[name], must.Sprintf("attribute %q", name))
	}

	t.Run("statistics", func(t *testing.T) {
		must.NoError(t, s.gpus.Set(0, map[string]string{"temperature": "61"}))
		must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
			stats, err := s.agent.API.Nodes().Stats(node.ID, nil)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%v", deviceStats(stats))
			if !strings.Contains(text, "61") {
				return fmt.Errorf("no temperature of 61 in %s", text)
			}
			return nil
		}))
	})

	t.Run("a lost GPU is unhealthy and its neighbours are not", func(t *testing.T) {
		must.NoError(t, s.gpus.Lose(3))
		must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
			node, err := s.agent.Node()
			if err != nil {
				return err
			}
			healthy := 0
			for _, d := range node.NodeResources.Devices[0].Instances {
				if d.Healthy {
					healthy++
				} else if !strings.Contains(d.HealthDescription, "code 15") {
					return harness.Final(fmt.Errorf("the lost GPU says %q", d.HealthDescription))
				}
			}
			if healthy != 3 {
				return fmt.Errorf("%d healthy GPUs, want 3", healthy)
			}
			return nil
		}))
		must.NoError(t, s.gpus.Restore(3))
	})

	t.Run("the v1.0 API answers from the driver's process", func(t *testing.T) {
		for _, path := range []string{"/v1.0/docker/cli", "/docker/cli"} {
			must.Eq(t, "--volume-driver=nvidia-docker --volume=nvidia_driver_352.39:/usr/local/nvidia:ro --device=/dev/nvidiactl --device=/dev/nvidia-uvm --device=/dev/nvidia0 --device=/dev/nvidia1 --device=/dev/nvidia2 --device=/dev/nvidia3", httpGet(t, path))
		}
		must.StrHasPrefix(t, `{"Version":{"Driver":"352.39","CUDA":"7.5"},"Devices":[{"UUID":"GPU-1ab7d8d0-`, httpGet(t, "/v1.0/gpu/info/json"))
	})
}

func httpGet(t *testing.T, path string) string {
	t.Helper()
	answer, err := http.Get("http://127.0.0.1:3476" + path)
	must.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.NoError(t, err)
	must.Eq(t, http.StatusOK, answer.StatusCode, must.Sprintf("%s: %s", path, body))
	return string(body)
}

// deviceStats are the summary values of all GPUs.
func deviceStats(stats *api.HostStats) map[string]string {
	found := map[string]string{}
	for _, group := range stats.DeviceStats {
		for id, instance := range group.InstanceStats {
			for name, value := range instance.Stats.Attributes {
				found[id+" "+name] = value.String()
			}
		}
	}
	return found
}

// nodeWithGPUs waits until the server knows that many GPUs.
func (s *site) nodeWithGPUs(n int) *api.Node {
	return s.nodeWhen(func(node *api.Node) error {
		count := 0
		for _, group := range node.NodeResources.Devices {
			count += len(group.Instances)
		}
		if count != n {
			return fmt.Errorf("the node has %d GPUs, want %d", count, n)
		}
		return nil
	})
}

// nodeWhen waits until the server knows something of the node. What a plugin tells
// after its first fingerprint the agent passes on 5 to 10 seconds later.
func (s *site) nodeWhen(holds func(*api.Node) error) *api.Node {
	var node *api.Node
	must.NoError(s, harness.Eventually(s.ctx, time.Minute, func() (err error) {
		if node, err = s.agent.Node(); err != nil {
			return err
		}
		return holds(node)
	}))
	return node
}
