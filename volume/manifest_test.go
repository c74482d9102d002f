// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bytes"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// TestWarnsOfWhatIsMissing: a build warns of files that programs will miss, once, and
// not of 32-bit remainders (cases VOL-06).
func TestWarnsOfWhatIsMissing(t *testing.T) {
	m := &Manifest{Missing: []string{"lib/libcuda.so.1", "lib64/libnvcuvid.so.1", "share/vulkan/icd.d/nvidia_icd.json"}}
	must.Eq(t, []string{"lib64/libnvcuvid.so.1", "share/vulkan/icd.d/nvidia_icd.json"}, m.lacking())
	must.SliceEmpty(t, (&Manifest{}).lacking())

	var said bytes.Buffer
	s := newStore(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &said})}, smallHost(t, t.TempDir()))
	for range 2 {
		_, err := s.Ensure(t.Context())
		must.NoError(t, err)
	}
	must.Eq(t, 1, bytes.Count(said.Bytes(), []byte("lacks files")), must.Sprint(said.String()))
	must.StrContains(t, said.String(), "lib64/libnvidia-ptxjitcompiler.so."+v550)
}
