// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// Every container in the way is told at once, with what to do.
func TestUninstallRefuses(t *testing.T) {
	references := []reference{{name: "a", state: "running"}, {name: "b", state: "paused"}, {name: "c", state: "exited"}, {name: "d", state: "created"}}
	must.EqError(t, (&uninstall{}).refuse(references), `container "a" is running and uses a driver volume; stop it
container "b" is paused and uses a driver volume; stop it
container "c" has ended and refers to a driver volume; remove it, or use --remove-containers
container "d" has ended and refers to a driver volume; remove it, or use --remove-containers`)
	forced := &uninstall{removeContainers: true}
	must.ErrorContains(t, forced.refuse(references), `"a" is running`)
	must.NoError(t, forced.refuse(references[2:]))
	must.NoError(t, (&uninstall{}).refuse(nil))
}

func TestUninstallWithoutEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "docker.sock"))
	got := command(t, "uninstall")
	must.Eq(t, 1, got.code)
	must.StrContains(t, got.stderr, "cannot list the engine's volumes")
	must.StrContains(t, got.stderr, "start the engine, or check DOCKER_HOST")
}
