// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestRoleOf(t *testing.T) {
	for _, tc := range []struct {
		name    string
		args    string
		byNomad bool
		want    Role
	}{
		{"no name", "", true, RoleCommand},
		{"driver", "/opt/plugins/gpu-docker", true, RoleDriver},
		{"driver under another name", "/opt/plugins/driver-a", true, RoleDriver},
		{"driver with operator's args", "gpu-docker --anything 1", true, RoleDriver},
		{"device", "/opt/plugins/nvidia-gpu", true, RoleDevice},
		{"device with operator's args", "nvidia-gpu x", true, RoleDevice},
		{"role named", "renamed plugin device", true, RoleDevice},
		{"role named against the file name", "nvidia-gpu plugin driver", true, RoleDriver},
		{"role named by hand", "gpu-docker plugin driver", false, RoleCommand},
		{"by hand", "gpu-docker", false, RoleCommand},
		{"device by hand", "nvidia-gpu", false, RoleCommand},
		{"command", "gpu-docker info --json", false, RoleCommand},
		{"command in a task of an agent", "gpu-docker info", true, RoleCommand},
		{"command of the device's name", "nvidia-gpu status", true, RoleCommand},
		{"wrapper", "/usr/bin/nvidia-docker run x", false, RoleWrapper},
		{"wrapper in a task of an agent", "nvidia-docker ps", true, RoleWrapper},
		{"log holder", "/opt/plugins/gpu-docker log-holder --dir /x", false, RoleLogHolder},
		{"log holder, cookie inherited", "gpu-docker log-holder --dir /x", true, RoleLogHolder},
		{"log holder of a renamed device", "nvidia-gpu log-holder", true, RoleLogHolder},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, tc.want, RoleOf(strings.Fields(tc.args), tc.byNomad))
		})
	}
}
