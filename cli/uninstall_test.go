// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	enginevolume "github.com/docker/docker/api/types/volume"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/volume"
)

// storedEngine has volumes and containers, and notes what was removed.
type storedEngine struct {
	volumes    []*enginevolume.Volume
	containers []container.Summary
	removeErr  error // of volumes
	removed    []string
}

func (e *storedEngine) VolumeList(_ context.Context, o enginevolume.ListOptions) (enginevolume.ListResponse, error) {
	if !o.Filters.ExactMatch("driver", volumeDriver) {
		return enginevolume.ListResponse{}, errors.New("volumes of other drivers are none of ours")
	}
	return enginevolume.ListResponse{Volumes: e.volumes}, nil
}

func (e *storedEngine) ContainerList(_ context.Context, o container.ListOptions) ([]container.Summary, error) {
	if !o.All {
		return nil, errors.New("containers that have ended count too")
	}
	return e.containers, nil
}

func (e *storedEngine) VolumeRemove(_ context.Context, name string, _ bool) error {
	if e.removeErr == nil {
		e.removed = append(e.removed, name)
	}
	return e.removeErr
}

func (e *storedEngine) ContainerRemove(_ context.Context, id string, _ container.RemoveOptions) error {
	e.removed = append(e.removed, id)
	return nil
}

func mounting(name, state string, m container.MountPoint) container.Summary {
	return container.Summary{ID: name + "-0123456789ab", Names: []string{"/" + name}, State: state, Mounts: []container.MountPoint{m}}
}

// A container refers to a driver volume by the volume's name or by a bind mount of
// its directory, whether the engine knows the volume or not (cases CLI-02).
func TestUninstallSeesEveryMount(t *testing.T) {
	known := &enginevolume.Volume{Name: "nvidia_driver_535.1", Mountpoint: "/volumes/nvidia_driver/535.1"}
	unanswered := &enginevolume.Volume{Name: "nvidia_driver_535.1"}
	tree := volume.Volume{Name: "nvidia_driver_535.1", Version: "535.1", Mountpoint: "/volumes/nvidia_driver/535.1"}
	for _, tc := range []struct {
		name    string
		records []*enginevolume.Volume
		trees   []volume.Volume
		mount   container.MountPoint
		found   bool
	}{
		{"by name", []*enginevolume.Volume{known}, nil, container.MountPoint{Name: "nvidia_driver_535.1", Source: "/elsewhere"}, true},
		{"by name, driver dead", []*enginevolume.Volume{unanswered}, nil, container.MountPoint{Name: "nvidia_driver_535.1"}, true},
		{"directory that the engine knows", []*enginevolume.Volume{known}, nil, container.MountPoint{Source: "/volumes/nvidia_driver/535.1"}, true},
		{"directory on disk", nil, []volume.Volume{tree}, container.MountPoint{Source: "/volumes/nvidia_driver/535.1"}, true},
		{"one library", nil, []volume.Volume{tree}, container.MountPoint{Source: "/volumes/nvidia_driver/535.1/lib64/libcuda.so.1"}, true},
		{"another version", []*enginevolume.Volume{known}, []volume.Volume{tree}, container.MountPoint{Source: "/volumes/nvidia_driver/535.10"}, false},
		{"another directory, driver dead", []*enginevolume.Volume{unanswered}, nil, container.MountPoint{Source: "/srv"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			engine := &storedEngine{volumes: tc.records, containers: []container.Summary{mounting("web", "running", tc.mount)}}
			u := &uninstall{app: &app{stdout: &out}, engine: engine, trees: tc.trees}
			err := u.run(t.Context())
			if !tc.found {
				must.NoError(t, err)
				must.Len(t, len(tc.records), engine.removed)
				return
			}
			must.EqError(t, err, `container "web" is running and uses a driver volume; stop it`)
			must.SliceEmpty(t, engine.removed)

			u.checkOnly = true
			must.Error(t, u.run(t.Context()))
			must.StrContains(t, out.String(), "container  web-01234567  running  web\n")
		})
	}
}

// A volume that the store keeps, as something mounts it, is told with its reason;
// so is one whose driver does not answer.
func TestUninstallKeepsTheReason(t *testing.T) {
	engine := &storedEngine{
		volumes:    []*enginevolume.Volume{{Name: "nvidia_driver_535.1", Mountpoint: "/v/nvidia_driver/535.1"}},
		containers: []container.Summary{mounting("old", "exited", container.MountPoint{Source: "/v/nvidia_driver/535.1"})},
		removeErr:  errors.New(`volume is in use: "/v/nvidia_driver/535.1" is mounted`),
	}
	var out bytes.Buffer
	err := (&uninstall{app: &app{stdout: &out}, engine: engine, removeContainers: true}).run(t.Context())
	must.EqError(t, err, `volume "nvidia_driver_535.1" cannot be removed: volume is in use: "/v/nvidia_driver/535.1" is mounted; `+
		`end what uses it, or start "gpu-docker serve" if the volume driver does not answer, and try again`)
	must.Eq(t, "old\n", out.String())
	must.Eq(t, []string{"old-0123456789ab"}, engine.removed)
}

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
