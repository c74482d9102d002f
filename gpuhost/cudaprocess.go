// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/guard"
)

// cudaProbe is a running probe.
type cudaProbe struct {
	done   chan struct{} // closed when report and err are set
	cancel context.CancelFunc
	report *cudaReport
	err    error
}

// startProbe starts this program again as a CUDA probe; nil without a CUDA
// library.
func (h *Host) startProbe() *cudaProbe {
	inside, err := h.root.findLibrary(cudaName)
	if err != nil {
		return nil
	}
	place, err := h.root.regular(inside)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	probe := &cudaProbe{done: make(chan struct{}), cancel: cancel}
	begin := time.Now()
	go func() {
		defer guard.Log(h.log, "CUDA probe")
		defer cancel()
		probe.run(ctx, h.log, place)
		if time.Since(begin) > h.probeWait() {
			h.inventory.expire()
			h.watchers.wake()
		}
	}()
	return probe
}

// run fills the probe in.
func (p *cudaProbe) run(ctx context.Context, log hclog.Logger, library string) {
	defer close(p.done)
	defer guard.Catch(log, "CUDA probe", &p.err)
	p.report, p.err = runProbe(ctx, library)
}

// probeWait is how long an inventory waits for a probe: most of what its readers
// wait, so that the rest of it is there in time. Later inventories have what
// comes after that.
func (h *Host) probeWait() time.Duration { return h.cfg.Patience * 3 / 4 }

// probeEnvironment has all GPUs asked, in the order of the PCI bus, whatever the
// environment of this process says (nvidia-docker-v1 DM-6).
func probeEnvironment(own []string) []string {
	kept := slices.DeleteFunc(own, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "CUDA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_ORDER"
	})
	return append(kept, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
}

// runProbe runs a probe to its end.
func runProbe(ctx context.Context, library string) (*cudaReport, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{"gpu-docker-cuda-probe"}
	cmd.Env = append(probeEnvironment(os.Environ()), cudaProbeVariable+"="+library)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("CUDA did not answer within %s", probeLimit)
		}
		return nil, fmt.Errorf("CUDA cannot be asked: %w: %s", err, firstLine(stderr.String()))
	}
	report := new(cudaReport)
	if err := json.Unmarshal(stdout.Bytes(), report); err != nil {
		return nil, fmt.Errorf("CUDA gave no report: %w", err)
	}
	return report, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// collectProbe waits a moment for the running probe and takes over its report.
func (h *Host) collectProbe() {
	timer := time.NewTimer(h.probeWait())
	defer timer.Stop()
	select {
	case <-h.cuda.probe.done:
	case <-timer.C:
		return
	}
	report, err := h.cuda.probe.report, h.cuda.probe.err
	h.cuda.probe = nil
	if err == nil && report.Problem != "" {
		err = fmt.Errorf("CUDA has no devices: %s", report.Problem)
	}
	if err != nil {
		h.once("cuda "+err.Error(), func() {
			h.log.Warn("facts that only CUDA tells come from NVML and tables", "reason", err)
		})
	}
	if report != nil {
		h.cuda.report = report
	}
}
