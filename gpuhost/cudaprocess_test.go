// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestProbeEnvironment(t *testing.T) {
	own := []string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=FASTEST_FIRST", "CUDA_CACHE_PATH=/tmp"}
	must.Eq(t, []string{"PATH=/bin", "CUDA_CACHE_PATH=/tmp", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}, probeEnvironment(own))
}
