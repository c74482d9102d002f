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
	"github.com/docker/docker/api/types/volume"
	"github.com/spf13/cobra"
)

const uninstallHelp = `Makes the engine forget the volume driver nvidia-docker, as the last step before
the program goes: volumes of a driver that does not answer any more slow the
engine down for as long as it knows them.

Call it while the volume driver still answers ("gpu-docker serve", or the Nomad
agent with its GPU jobs stopped). It refuses while containers refer to one of the
volumes: running ones must be stopped first, and ones that have ended must be
removed, by you or with --remove-containers.

With --check it only lists what refers to the volume driver.

Exit codes: 0 nothing is left, 1 something is, 2 wrong usage.`

// volumeDriver is the name under which the engine knows our volumes.
const volumeDriver = "nvidia-docker"

// uninstall is one call of the command.
type uninstall struct {
	app              *app
	engine           *engine
	checkOnly        bool
	removeContainers bool
}

func newUninstallCommand(a *app) *cobra.Command {
	u := &uninstall{app: a}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Make the engine forget the driver volumes",
		Long:  uninstallHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if u.engine, err = newEngine(); err != nil {
				return err
			}
			defer u.engine.close()
			return u.run(cmd.Context())
		},
	}
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
	volumes, err := u.volumes(ctx)
	if err != nil {
		return err
	}
	references, err := u.references(ctx, volumes)
	if err != nil {
		return err
	}
	if u.checkOnly {
		return u.list(volumes, references)
	}
	if err := u.refuse(references); err != nil {
		return err
	}
	return u.remove(ctx, volumes, references)
}

// volumes are the names of our volumes in the engine's list.
func (u *uninstall) volumes(ctx context.Context) ([]string, error) {
	found, err := u.engine.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("driver", volumeDriver))})
	if err != nil {
		return nil, fmt.Errorf("cannot list the engine's volumes: %w; start the engine, or check DOCKER_HOST", err)
	}
	var names []string
	for _, v := range found.Volumes {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names, nil
}

// references are the containers, running or not, that mount one of the volumes.
func (u *uninstall) references(ctx context.Context, volumes []string) ([]reference, error) {
	all, err := u.engine.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("cannot list the engine's containers: %w", err)
	}
	var found []reference
	for _, c := range all {
		if slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return slices.Contains(volumes, m.Name) }) {
			found = append(found, reference{id: c.ID, name: strings.TrimPrefix(strings.Join(c.Names, ","), "/"), state: c.State})
		}
	}
	slices.SortFunc(found, func(a, b reference) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

// list prints what is there; anything means exit code 1.
func (u *uninstall) list(volumes []string, references []reference) error {
	for _, name := range volumes {
		say(u.app.stdout, "volume     %s\n", name)
	}
	for _, r := range references {
		say(u.app.stdout, "container  %s  %s  %s\n", r.id[:12], r.state, r.name)
	}
	if len(volumes)+len(references) > 0 {
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
func (u *uninstall) remove(ctx context.Context, volumes []string, references []reference) error {
	var failed []error
	for _, r := range references {
		if err := u.engine.ContainerRemove(ctx, r.id, container.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("container %q cannot be removed: %w", r.name, err))
			continue
		}
		say(u.app.stdout, "%s\n", r.name)
	}
	for _, name := range volumes {
		if err := u.engine.VolumeRemove(ctx, name, false); err != nil && !errdefs.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("volume %q cannot be removed: %w; the volume driver must answer: start \"gpu-docker serve\" and try again", name, err))
			continue
		}
		say(u.app.stdout, "%s\n", name)
	}
	return errors.Join(failed...)
}
