// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// task-driver IM-1.
func TestParseRef(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, tc := range []struct {
		in   string
		want Ref
	}{
		{"busybox", Ref{"docker.io/library/busybox:latest", "busybox:latest", "docker.io", true}},
		{"busybox:latest", Ref{"docker.io/library/busybox:latest", "busybox:latest", "docker.io", true}},
		{"busybox:1.36", Ref{"docker.io/library/busybox:1.36", "busybox:1.36", "docker.io", false}},
		{"https://nvcr.io/nvidia/cuda:12.2", Ref{"nvcr.io/nvidia/cuda:12.2", "nvcr.io/nvidia/cuda:12.2", "nvcr.io", false}},
		{"host:5000/a/b", Ref{"host:5000/a/b:latest", "host:5000/a/b:latest", "host:5000", true}},
		{"host:5000/a/b:v1", Ref{"host:5000/a/b:v1", "host:5000/a/b:v1", "host:5000", false}},
		{"busybox@" + digest, Ref{"docker.io/library/busybox@" + digest, "busybox@" + digest, "docker.io", false}},
		{"busybox:latest@" + digest, Ref{"docker.io/library/busybox@" + digest, "busybox@" + digest, "docker.io", false}},
		{digest, Ref{digest, digest, "", false}},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := ParseRef(tc.in)
			must.NoError(t, err)
			must.Eq(t, tc.want, got)
		})
	}
	for _, bad := range []string{"", "Busybox", "a b", "busybox:", "busybox@sha256:12", strings.Repeat("ab", 32)} {
		t.Run("bad "+bad, func(t *testing.T) {
			_, err := ParseRef(bad)
			must.ErrorContains(t, err, "is not a valid reference")
		})
	}
}

func TestSamePlatform(t *testing.T) {
	for _, tc := range []struct {
		wanted string
		want   bool
	}{
		{"linux/arm64", true}, {"linux/arm64/v8", true}, {"Linux/ARM64", true}, {"linux", true},
		{"linux/amd64", false}, {"windows/arm64", false}, {"linux/arm64/v7", false},
	} {
		must.Eq(t, tc.want, samePlatform(tc.wanted, "linux", "arm64", "v8"), must.Sprint(tc.wanted))
	}
	must.True(t, samePlatform("linux/arm64/v8", "linux", "arm64", ""))
}
