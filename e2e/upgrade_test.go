//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// TestDriverUpgrade upgrades the NVIDIA driver under a running task: the task
// keeps its files, the next one gets the new driver's, and when nobody uses the
// old volume any more it goes by itself.
func TestDriverUpgrade(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	old := s.run(job{name: "old", image: imageCUDA75, script: gpuView, gpus: 1})
	must.NoError(t, s.gpus.Upgrade("361.48"))
	must.NoError(t, harness.Eventually(s.ctx, 60*time.Second, func() error {
		node, err := s.agent.Node()
		if err != nil {
			return err
		}
		if v := node.Attributes["driver.gpu-docker.nvidia_driver"]; v != "361.48" {
			return fmt.Errorf("the node reports driver %q", v)
		}
		return nil
	}))
	fresh := s.run(job{name: "fresh", image: imageCUDA75, script: gpuView, gpus: 1})
	must.Len(t, 1, s.view(fresh).smi)

	must.Eq(t, []string{"bind  " + volumeTrees + "352.39 rw=false"}, volumeMounts(s.inspect(old.ID)))
	must.Eq(t, []string{"bind  " + volumeTrees + "361.48 rw=false"}, volumeMounts(s.inspect(fresh.ID)))
	text, err := harness.Docker(s.ctx, "exec", s.inspect(old.ID).ID, "ls", "/usr/local/nvidia/lib64/libcuda.so.352.39")
	must.NoError(t, err, must.Sprint(text))

	// Node and command line tell who has the old files (cases DRV-21).
	must.NoError(t, harness.Eventually(s.ctx, time.Minute, func() error {
		node, err := s.agent.Node()
		if err != nil {
			return err
		}
		if text := node.Drivers["gpu-docker"].HealthDescription; text != "Healthy; 1 task uses old driver 352.39; gpu-docker doctor lists them" {
			return fmt.Errorf("the driver's health is %q", text)
		}
		return nil
	}))
	doctor := exec.CommandContext(s.ctx, filepath.Join(s.bin, "gpu-docker"), "doctor", "--driver-root", s.driverRoot())
	found, _ := doctor.CombinedOutput() // it warns
	must.StrContains(t, string(found), "users of other drivers: "+strings.TrimPrefix(s.inspect(old.ID).Name, "/")+" (352.39)")

	must.NoError(t, s.agent.StopJob(s.ctx, "old"))
	must.NoError(t, harness.Eventually(s.ctx, 2*time.Minute, func() error {
		if _, err := os.Stat(volumeTrees + "352.39"); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.New("the old driver's volume is still there")
	}))
	must.Len(t, 1, s.view(fresh).smi)
}
