// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// The demonstration's images, and the CUDA version that no driver has yet.
const (
	imageFits   = "gpu-docker-demo/cuda:fits"
	imageTooNew = "gpu-docker-demo/cuda:too-new"
	newestCUDA  = "99.0"
)

// demoImages are labelled as nvidia/cuda images are: one for any driver, one
// for a driver newer than this host's.
func demoImages(profile string) []harness.Image {
	tooNew := newestCUDA
	if profile == defaultProfile {
		tooNew = "8.0"
	}
	label := func(cuda string) map[string]string {
		return map[string]string{"com.nvidia.volumes.needed": "nvidia_driver", "com.nvidia.cuda.version": cuda}
	}
	return []harness.Image{
		{Ref: imageFits, Labels: label("6.5")},
		{Ref: imageTooNew, Labels: label(tooNew)},
	}
}

// run is the whole demonstration.
func run(ctx context.Context, opts options) (err error) {
	heading(1, "A Docker Engine, a GPU host and a Nomad agent")
	s, err := setUp(ctx, opts)
	kept := false
	defer func() {
		if !kept {
			err = errors.Join(err, s.tearDown())
		}
	}()
	if err != nil {
		return err
	}
	for i, step := range []struct {
		title string
		do    func() error
	}{
		{"The GPUs of the node, as Nomad sees them", s.showNode},
		{"A job with one GPU sees that GPU and no other", s.showTask},
		{"An image for a newer driver is refused before it starts", s.showRefusal},
		{"The v1.0 REST API, from the driver's process", s.showREST},
		{"The driver volume in Docker's list", s.showVolume},
	} {
		heading(i+2, step.title)
		if err := step.do(); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+2, strings.ToLower(step.title[:1])+step.title[1:], err)
		}
	}
	if opts.keep {
		kept = true
		s.tellHowToGoOn()
	}
	return nil
}

func (s *stage) showNode() error {
	out, err := s.nomad("node", "status", "-self", "-verbose")
	if err != nil {
		return err
	}
	show("nomad node status -self -verbose", strings.Join([]string{
		cut(out, "Drivers"), cut(out, "Host Resource Utilization"), cut(out, "Device Resource Utilization"), attributes(out),
	}, "\n\n"))
	node, err := s.agent.Node()
	if err != nil {
		return err
	}
	if node.NodeResources == nil || len(node.NodeResources.Devices) == 0 {
		return errors.New("the node reports no GPU; its plugins' log lines tell why")
	}
	return nil
}

// attributes are the lines about our driver and the devices' attributes.
func attributes(status string) string {
	var lines []string
	for _, line := range strings.Split(status, "\n") {
		if strings.HasPrefix(line, "driver.gpu-docker") {
			lines = append(lines, line)
		}
	}
	// Nomad 1.6 prints this heading with its markup.
	group := cut(status, "[bold]Device Group Attributes[reset]")
	return strings.Join(append(lines, "", strings.NewReplacer("[bold]", "", "[reset]", "").Replace(group)), "\n")
}

func (s *stage) showTask() error {
	out, err := s.nomad("job", "run", "-detach", "-var", "image="+imageFits, s.job)
	if err != nil {
		return err
	}
	show("nomad job run -detach -var image="+imageFits+" "+s.job, out)
	alloc, err := s.agent.WaitAlloc(s.ctx, "example", api.AllocClientStatusRunning)
	if err != nil {
		return err
	}
	text, err := s.agent.WaitLogs(s.ctx, alloc, "gpu", func(text string) error {
		if !strings.Contains(text, "GPU 0:") {
			return fmt.Errorf("the task has not listed its GPU yet: %q", text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	show("nomad alloc logs "+alloc.ID[:8], text)
	if n := strings.Count(text, "GPU-"); n == 0 || strings.Contains(text, "GPU 1:") {
		return fmt.Errorf("the task should list exactly its own GPU, it printed %q", text)
	}
	return nil
}

// refusedJob asks for a GPU with an image that is too new for the driver.
const refusedJob = `job "too-new" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "gpu" {
      driver = "gpu-docker"
      config { image = "IMAGE" }
      resources {
        cpu    = 50
        memory = 32
        device "nvidia/gpu" { count = 1 }
      }
    }
  }
}`

func (s *stage) showRefusal() error {
	file := filepath.Join(s.dir, "too-new.nomad.hcl")
	if err := os.WriteFile(file, []byte(strings.Replace(refusedJob, "IMAGE", imageTooNew, 1)), 0o644); err != nil {
		return err
	}
	out, err := s.nomad("job", "run", "-detach", file)
	if err != nil {
		return err
	}
	show("nomad job run -detach "+filepath.Base(file)+" # its image is "+imageTooNew, out)
	alloc, err := s.agent.WaitAlloc(s.ctx, "too-new", api.AllocClientStatusFailed)
	if err != nil {
		return err
	}
	if out, err = s.nomad("alloc", "status", alloc.ID); err != nil {
		return err
	}
	show("nomad alloc status "+alloc.ID[:8], cut(out, "Recent Events:"))
	if !strings.Contains(harness.Events(alloc), "needs CUDA") {
		return errors.New("the refusal does not tell which CUDA version the image needs")
	}
	return nil
}

func (s *stage) showREST() error {
	for _, path := range []string{"/v1.0/docker/cli", "/v1.0/gpu/info"} {
		body, err := get("http://127.0.0.1:3476" + path)
		if err != nil {
			return err
		}
		show("curl -s 127.0.0.1:3476"+path, firstLines(body, 20))
	}
	return nil
}

func get(url string) (string, error) {
	answer, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", url, answer.StatusCode, body)
	}
	return string(body), err
}

// firstLines cuts a long output and says so.
func firstLines(text string, n int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) <= n {
		return text
	}
	return strings.Join(append(all[:n], "  …"), "\n")
}

func (s *stage) showVolume() error {
	out, err := harness.Docker(s.ctx, "volume", "ls", "--filter", "driver=nvidia-docker")
	if err != nil {
		return err
	}
	show("docker volume ls --filter driver=nvidia-docker", out)
	if !strings.Contains(out, "nvidia_driver_") {
		return errors.New("the driver volume is not in Docker's list")
	}
	return nil
}

// tellHowToGoOn explains what was left running.
func (s *stage) tellHowToGoOn() {
	fmt.Printf("\nThe agent was left running (process %d):\n", s.agent.PID())
	say("export NOMAD_ADDR=%s", s.agent.Address())
	say("nomad node status -self -verbose; nomad job status; curl -s 127.0.0.1:3476/v1.0/gpu/status")
	if s.simulated {
		say("simulate faults: %s/simhost set --root %s --gpu 0 temperature=85", s.bin, s.driverRoot)
	}
	fmt.Println("To stop it and clean up:")
	say("nomad job stop -purge example; docker volume rm $(docker volume ls -q --filter driver=nvidia-docker)")
	say("kill -INT %d", s.agent.PID())
	if s.simulated {
		say("%s/simhost down --root %s; rm -rf %s", s.bin, s.driverRoot, s.dir)
	}
}
