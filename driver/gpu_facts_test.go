// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// TestCompatHost: a CUDA version that the driver did not report is left to compat,
// which says where it has its own from (cases CMP-01).
func TestCompatHost(t *testing.T) {
	g := grant{
		Driver:  gpuhost.Driver{Version: "375.66", CUDA: gpuhost.CUDAVersion{Major: 8}},
		Devices: []grantedDevice{{UUID: "GPU-a", GPU: &gpuhost.GPU{UUID: "GPU-a"}}},
	}
	must.Eq(t, "8.0", g.compatHost().CUDA)
	g.Driver.CUDAFromTable = true
	must.Eq(t, "", g.compatHost().CUDA)
	image := compat.Metadata{Env: map[string]string{compat.EnvCUDAVersion: "8.0"}}
	decision := compat.Decide("image", image, g.compatHost(), compat.Policy{})
	must.StrContains(t, decision.Reason, "was compared with CUDA 8.0, taken from the table of drivers, because driver 375.66 does not report its CUDA version")
}
