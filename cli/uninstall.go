// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	enginevolume "github.com/docker/docker/api/types/volume"
	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

const uninstallHelp = `Makes the engine forget the volume driver nvidia-docker, as the last step before
the program goes: volumes of a driver that does not answer any more slow the
engine down for as long as it knows them.

Call it while "gpu-docker serve" answers for the volumes, with the Nomad agent
stopped: an agent builds the loaded driver's volume again. It refuses while
containers refer to one of the volumes, by name or by a bind mount: running ones
must be stopped first, and ones that have ended must be removed, by you or with
--remove-containers.

With --check it only lists what refers to the volume driver.

Exit codes: 0 nothing is left, 1 something is, 2 wrong usage.`

// volumeDriver is the name under which the engine knows our volumes.
const volumeDriver = "nvidia-docker"

// uninstallEngine is what the command asks of a Docker Engine; docker's client
// satisfies it.
type uninstallEngine interface {
	VolumeList(ctx context.Context, options enginevolume.ListOptions) (enginevolume.ListResponse, error)
	VolumeRemove(ctx context.Context, name string, force bool) error
	ContainerList(ctx context.Context, options container.ListOptions) ([]container.Summary, error)
	ContainerRemove(ctx context.Context, id string, options container.RemoveOptions) error
}

// uninstall is one call of the command.
type uninstall struct {
	app    *app
	engine uninstallEngine
	// trees are the driver volumes on disk. The engine need not know them: with a
	// bind mount it is told a directory only.
	trees            []volume.Volume
	checkOnly        bool
	removeContainers bool
}

func newUninstallCommand(a *app) *cobra.Command {
	u, o := &uninstall{app: a}, &volumeOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Make the engine forget the driver volumes",
		Long:  uninstallHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := newEngine()
			if err != nil {
				return err
			}
			defer engine.close()
			u.engine = engine
			return a.withStore(o, func(_ *gpuhost.Host, store *volume.Store) error {
				if u.trees, err = store.List(); err != nil {
					return err
				}
				return u.run(cmd.Context())
			})
		},
	}
	cmd.Flags().StringVarP(&o.path, "volumes-path", "d", volume.DefaultDir, "directory of the driver volumes")
	cmd.Flags().BoolVar(&u.checkOnly, "check", false, "only list what refers to the volume driver")
	cmd.Flags().BoolVar(&u.removeContainers, "remove-containers", false, "remove containers that have ended and refer to a driver volume")
	return cmd
}

// reference is a container that refers to a driver volume.
type reference struct {
	id, name, state string
}

func (r *reference) running() bool {
	return r.state != "exited" && r.state != "created" && r.state != "dead"
}

func (u *uninstall) run(ctx context.Context) error {
	records, err := u.records(ctx)
	if err != nil {
		return err
	}
	references, err := u.references(ctx, slices.Concat(records, u.trees))
	if err != nil {
		return err
	}
	if u.checkOnly {
		return u.list(records, references)
	}
	if err := u.refuse(references); err != nil {
		return err
	}
	return u.remove(ctx, records, references)
}

// records are our volumes in the engine's list. The engine knows no mountpoint of
// a volume whose driver does not answer.
func (u *uninstall) records(ctx context.Context) ([]volume.Volume, error) {
	found, err := u.engine.VolumeList(ctx, enginevolume.ListOptions{Filters: filters.NewArgs(filters.Arg("driver", volumeDriver))})
	if err != nil {
		return nil, fmt.Errorf("cannot list the engine's volumes: %w; start the engine, or check DOCKER_HOST", err)
	}
	var records []volume.Volume
	for _, v := range found.Volumes {
		records = append(records, volume.Volume{Name: v.Name, Mountpoint: v.Mountpoint})
	}
	slices.SortFunc(records, func(a, b volume.Volume) int { return strings.Compare(a.Name, b.Name) })
	return records, nil
}

// references are the containers, running or not, that mount one of the volumes,
// by its name or its directory.
func (u *uninstall) references(ctx context.Context, volumes []volume.Volume) ([]reference, error) {
	all, err := u.engine.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("cannot list the engine's containers: %w", err)
	}
	var found []reference
	for _, c := range all {
		if mountsOneOf(&c, volumes) {
			found = append(found, reference{id: c.ID, name: strings.TrimPrefix(strings.Join(c.Names, ","), "/"), state: c.State})
		}
	}
	slices.SortFunc(found, func(a, b reference) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

func mountsOneOf(c *container.Summary, volumes []volume.Volume) bool {
	for _, m := range c.Mounts {
		for _, v := range volumes {
			if m.Name == v.Name || v.Mountpoint != "" && v.MountedAs(m.Name, m.Source) {
				return true
			}
		}
	}
	return false
}

// list prints what is there; anything means exit code 1.
func (u *uninstall) list(records []volume.Volume, references []reference) error {
	for _, v := range records {
		say(u.app.stdout, "volume     %s\n", v.Name)
	}
	for _, r := range references {
		say(u.app.stdout, "container  %s  %s  %s\n", r.id[:12], r.state, r.name)
	}
	if len(records)+len(references) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

// refuse tells every container in the way at once.
func (u *uninstall) refuse(references []reference) error {
	var inTheWay []error
	for _, r := range references {
		switch {
		case r.running():
			inTheWay = append(inTheWay, fmt.Errorf("container %q is %s and uses a driver volume; stop it", r.name, r.state))
		case !u.removeContainers:
			inTheWay = append(inTheWay, fmt.Errorf("container %q has ended and refers to a driver volume; remove it, or use --remove-containers", r.name))
		}
	}
	return errors.Join(inTheWay...)
}

// remove takes containers, then volumes, out of the engine and prints their names.
func (u *uninstall) remove(ctx context.Context, records []volume.Volume, references []reference) error {
	var failed []error
	for _, r := range references {
		if err := u.engine.ContainerRemove(ctx, r.id, container.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("container %q cannot be removed: %w", r.name, err))
			continue
		}
		say(u.app.stdout, "%s\n", r.name)
	}
	for _, v := range records {
		if err := u.engine.VolumeRemove(ctx, v.Name, false); err != nil && !errdefs.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("volume %q cannot be removed: %w; end what uses it, or start \"gpu-docker serve\" if the volume driver does not answer, and try again", v.Name, err))
			continue
		}
		say(u.app.stdout, "%s\n", v.Name)
	}
	return errors.Join(failed...)
}
