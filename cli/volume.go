// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// volumeOptions are the flags of all volume commands.
type volumeOptions struct {
	path         string
	files        string
	capabilities []string
}

// newVolumeCommand groups the commands on driver volumes.
func newVolumeCommand(a *app) *cobra.Command {
	o := &volumeOptions{}
	cmd := &cobra.Command{
		Use:   "volume",
		Short: "List, create and prune the driver volumes of this host",
		Long: `A driver volume holds the user-space files of one NVIDIA driver version, for
containers to mount at /usr/local/nvidia. The engine knows it as
nvidia_driver_<version> of the volume driver nvidia-docker.`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(fmt.Errorf("%q needs a command: ls, create or prune", cmd.CommandPath()))
		},
	}
	cmd.PersistentFlags().StringVarP(&o.path, "volumes-path", "d", volume.DefaultDir, "directory of the driver volumes")
	cmd.AddCommand(newVolumeListCommand(a, o), newVolumeCreateCommand(a, o), newVolumePruneCommand(a, o))
	return cmd
}

func newVolumeListCommand(a *app, o *volumeOptions) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the driver volumes",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(o, func(host *gpuhost.Host, store *volume.Store) error {
				return a.listVolumes(host.Inventory(cmd.Context()), store, asJSON)
			})
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func newVolumeCreateCommand(a *app, o *volumeOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Build the volume of the loaded driver and print its name",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(o, func(_ *gpuhost.Host, store *volume.Store) error {
				v, err := store.Ensure(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(a.stdout, v.Name)
				return err
			})
		},
	}
	addVolumeFlags(cmd, &o.files, &o.capabilities)
	return cmd
}

// addVolumeFlags adds the flags that say how a volume is built.
func addVolumeFlags(cmd *cobra.Command, files *string, capabilities *[]string) {
	cmd.Flags().StringVar(files, "volume-files", string(volume.FilesAuto), "how a volume's files are made: auto, link or copy")
	cmd.Flags().StringSliceVar(capabilities, "capabilities", []string{"all"}, "what the volume holds: all, or some of compute, utility, video, graphics, ngx, compat32")
}

// withStore opens this host and its volumes for one command.
func (a *app) withStore(o *volumeOptions, do func(*gpuhost.Host, *volume.Store) error) error {
	host, err := a.openHost()
	if err != nil {
		return err
	}
	defer host.Close()
	store, err := openStore(o, host, hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: a.stderr}))
	if err != nil {
		return err
	}
	return do(host, store)
}

func openStore(o *volumeOptions, host volume.Host, log hclog.Logger) (*volume.Store, error) {
	dir, err := absolute(o.path)
	if err != nil {
		return nil, err
	}
	store, err := volume.NewStore(volume.Config{
		Dir:          dir,
		Files:        volume.Files(o.files),
		Capabilities: o.capabilities,
		Logger:       log,
	}, host)
	if err != nil {
		return nil, usage(err)
	}
	return store, nil
}

// listedVolume is a row of volume ls.
type listedVolume struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Loaded     bool   `json:"loaded"` // the driver that runs now is of this version
	Mountpoint string `json:"mountpoint"`
}

func (a *app) listVolumes(inv *gpuhost.Inventory, store *volume.Store, asJSON bool) error {
	volumes, err := store.List()
	if err != nil {
		return err
	}
	rows := []listedVolume{}
	for _, v := range volumes {
		rows = append(rows, listedVolume{Name: v.Name, Version: v.Version, Loaded: v.Version == inv.Driver.Version, Mountpoint: v.Mountpoint})
	}
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(rows)
	}
	out := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	say(out, "NAME\tDRIVER\tMOUNTPOINT\n")
	for _, r := range rows {
		state := "not loaded"
		if r.Loaded {
			state = "loaded"
		}
		say(out, "%s\t%s\t%s\n", r.Name, state, r.Mountpoint)
	}
	return out.Flush()
}

// pruned removes what is neither loaded nor used and prints the names.
func (a *app) pruned(ctx context.Context, store *volume.Store, inUse func(version string) bool) error {
	removed, err := store.Prune(ctx, inUse)
	for _, v := range removed {
		if _, err := fmt.Fprintln(a.stdout, v.Name); err != nil {
			return err
		}
	}
	return err
}
