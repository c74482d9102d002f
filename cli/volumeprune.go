// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

func newVolumePruneCommand(a *app, o *volumeOptions) *cobra.Command {
	var withoutEngine bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the driver volumes that are neither loaded nor used",
		Long: `Removes the volumes of driver versions that do not run now, unless a container,
running or not, refers to them; also from the engine's own list. Prints the names
of what was removed.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(o, func(host *gpuhost.Host, store *volume.Store) error {
				if withoutEngine {
					return a.pruned(cmd.Context(), store, nil)
				}
				return a.pruneWithEngine(cmd.Context(), host, store)
			})
		},
	}
	cmd.Flags().BoolVar(&withoutEngine, "without-engine", false, "do not ask the engine which volumes containers refer to; mounted ones stay all the same")
	return cmd
}

func (a *app) pruneWithEngine(ctx context.Context, host *gpuhost.Host, store *volume.Store) error {
	engine, err := newEngine()
	if err != nil {
		return err
	}
	defer engine.close()
	volumes, err := store.List()
	if err != nil {
		return err
	}
	used, err := engine.usedVolumes(ctx, volumes)
	if err != nil {
		return fmt.Errorf("cannot tell which volumes containers use: %w; start the engine, or use --without-engine", err)
	}
	loaded := host.Inventory(ctx).Driver.Version
	for _, v := range volumes {
		if v.Version == loaded || used[v.Version] {
			continue
		}
		// The engine's own record of the volume, if it has one.
		if err := engine.VolumeRemove(ctx, v.Name, false); err != nil && !errdefs.IsNotFound(err) {
			say(a.stderr, "Warning: the engine keeps volume %q: %v\n", v.Name, err)
			used[v.Version] = errdefs.IsConflict(err)
		}
	}
	return a.pruned(ctx, store, func(version string) bool { return used[version] })
}

// usedVolumes are the versions that any container mounts, by name or directory.
func (e *engine) usedVolumes(ctx context.Context, volumes []volume.Volume) (map[string]bool, error) {
	containers, err := e.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, c := range containers {
		for _, m := range c.Mounts {
			for _, v := range volumes {
				if v.MountedAs(m.Name, m.Source) {
					used[v.Version] = true
				}
			}
		}
	}
	return used, nil
}
