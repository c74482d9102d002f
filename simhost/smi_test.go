// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// smi is what the host's nvidia-smi prints, whether it ends well or not.
func smi(t *testing.T, h *simhost.Host, args ...string) string {
	t.Helper()
	return runSMI(t, filepath.Join(h.Root(), "usr/bin/nvidia-smi"), args...)
}

func runSMI(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return string(output)
}

func TestSMI(t *testing.T) {
	h := up(t, "k80x4-352")
	must.Eq(t, `GPU 0: Tesla K80 (UUID: GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11)
GPU 1: Tesla K80 (UUID: GPU-9c03e1f2-52aa-0d7b-11c9-a4b06d2f7e52)
GPU 2: Tesla K80 (UUID: GPU-e5c4402b-93df-4f60-b7de-08f3b9a1c6d3)
GPU 3: Tesla K80 (UUID: GPU-3f7712aa-cc05-81b4-6e2a-d97e5510fb84)
`, smi(t, h, "-L"))
	must.Eq(t, "index, uuid, memory.total, utilization.gpu, temperature.gpu, power.draw\n"+
		"0, GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11, 11519, 0, 33, 26.51\n"+
		"1, GPU-9c03e1f2-52aa-0d7b-11c9-a4b06d2f7e52, 11519, 37, 41, 71.99\n"+
		"2, GPU-e5c4402b-93df-4f60-b7de-08f3b9a1c6d3, 11519, 100, 78, 148.73\n"+
		"3, GPU-3f7712aa-cc05-81b4-6e2a-d97e5510fb84, 11519, 0, 35, 30.01\n",
		smi(t, h, "--query-gpu=index,uuid,memory.total,utilization.gpu,temperature.gpu,power.draw", "--format=csv,nounits"))
	must.StrContains(t, smi(t, h), "| NVIDIA-SMI 352.39               Driver Version: 352.39                      |")
	must.StrContains(t, smi(t, h, "--fly"), "Invalid option: --fly")
	must.NoError(t, h.Lose(2))
	must.StrContains(t, smi(t, h, "-L"), "Unable to determine the device handle for gpu 2: GPU is lost\nGPU 3: Tesla K80")
}
