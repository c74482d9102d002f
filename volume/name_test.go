// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestParseName(t *testing.T) {
	for _, tc := range []struct{ title, name, version, wantErr string }{
		{"plain", "nvidia_driver_352.39", "352.39", ""},
		{"three parts", "nvidia_driver_535.104.05", "535.104.05", ""},
		{"one part", "nvidia_driver_1", "1", ""},
		{"empty", "", "", "bad volume format: "},
		{"parent directory", "nvidia_driver_..", "", "bad volume format: nvidia_driver_.."},
		{"this directory", "nvidia_driver_.", "", "bad volume format: nvidia_driver_."},
		{"path behind the version", "nvidia_driver_352.39/../..", "", "bad volume format: nvidia_driver_352.39/../.."},
		{"absolute path", "/nvidia_driver_352.39", "", "bad volume format: /nvidia_driver_352.39"},
		{"new line at the end", "nvidia_driver_352.39\n", "", "bad volume format: nvidia_driver_352.39\n"},
		{"zero byte", "nvidia_driver_352.39\x00", "", "bad volume format: nvidia_driver_352.39\x00"},
		{"other case", "NVIDIA_driver_352.39", "", "unsupported volume: NVIDIA_driver_352.39"},
		{"other volume", "foo_352.39", "", "unsupported volume: foo_352.39"},
		{"last underscore splits", "nvidia_driver_352.39_1", "", "unsupported volume: nvidia_driver_352.39_1"},
	} {
		t.Run(tc.title, func(t *testing.T) {
			version, err := ParseName(tc.name)
			if tc.wantErr != "" {
				must.EqError(t, err, tc.wantErr)
				var nameErr *NameError
				must.True(t, errors.As(err, &nameErr))
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.version, version)
			must.Eq(t, tc.name, Name(version))
		})
	}
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"", "nvidia_driver_352.39", "nvidia_driver_..", "nvidia_driver_1..2", "_1", "nvidia_driver_352.39\n", "a_b_1", "nvidia_driver_../1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		version, err := ParseName(name)
		if err != nil {
			if !strings.HasSuffix(err.Error(), ": "+name) {
				t.Fatalf("error %q does not quote the name %q", err, name)
			}
			return
		}
		if Name(version) != name {
			t.Fatalf("%q is not the name of its version %q", name, version)
		}
		if dir := filepath.Join("/v", version); filepath.Dir(dir) != "/v" || filepath.Base(dir) != version {
			t.Fatalf("version %q is not one path element", version)
		}
	})
}
