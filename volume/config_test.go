// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		title   string
		cfg     Config
		wantErr string
	}{
		{"defaults", Config{}, ""},
		{"everything", Config{Dir: "/srv/volumes/", Files: FilesCopy, Capabilities: []string{"compute", "video"}}, ""},
		{"relative path", Config{Dir: "var/lib/x"}, `volumes_path "var/lib/x" must be an absolute path below the root; use for example "/var/lib/nvidia-docker/volumes"`},
		{"the root", Config{Dir: "/"}, "below the root"},
		{"unknown way", Config{Files: "move"}, `volume_files "move" is not known; use "auto", "link" or "copy"`},
		{"unknown capability", Config{Capabilities: []string{"Compute"}}, `capability "Compute" is not known`},
	} {
		t.Run(tc.title, func(t *testing.T) {
			_, err := NewStore(tc.cfg, &fakeHost{})
			if tc.wantErr == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.wantErr)
		})
	}
	s, err := NewStore(Config{}, &fakeHost{})
	must.NoError(t, err)
	must.Eq(t, "/var/lib/nvidia-docker/volumes/nvidia_driver/352.39", s.tree("352.39"))
	must.Eq(t, "/var/lib/nvidia-docker/.volumes.state", s.state)
}
