// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/restapi"
	"github.com/gpu-docker/gpu-docker/restapi/serve"
	"github.com/gpu-docker/gpu-docker/volume"
)

// v1Release is the release of nvidia-docker whose command lines we speak;
// clients parse it.
const v1Release = "1.0.1"

const serveHelp = `Serves what nvidia-docker-plugin 1.0 served, until it is interrupted: the REST API
(GPU facts, readings, docker arguments) and the docker volume driver
"nvidia-docker", which gives containers the NVIDIA driver's files. The options
-l, -d and -s are those of nvidia-docker-plugin.

Under Nomad the task driver serves the same, and this command is not needed. If
another process has the port or the socket, this one says so, serves the rest,
and takes over when the other ends.`

// serveOptions are the flags of serve.
type serveOptions struct {
	volumeOptions
	address   string
	socketDir string
	logLevel  string
	v1Version bool
}

// newServeCommand is the old nvidia-docker-plugin.
func newServeCommand(a *app) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the REST API and the volume driver without Nomad",
		Long:  serveHelp,
		Example: `  gpu-docker serve
  gpu-docker serve -l 127.0.0.1:3476 -d /var/lib/nvidia-docker/volumes -s /run/docker/plugins`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.v1Version {
				_, err := fmt.Fprintf(a.stdout, "NVIDIA Docker plugin: %s\n", v1Release)
				return err
			}
			return a.serve(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.address, "listen", "l", serve.DefaultAPIAddress, `address of the REST API; ":3476" is every interface, "" turns it off`)
	f.StringVarP(&o.path, "volumes-path", "d", volume.DefaultDir, "directory of the driver volumes")
	f.StringVarP(&o.socketDir, "socket-dir", "s", volume.DefaultSocketDir, `directory of the volume driver's socket, "" turns it off`)
	addVolumeFlags(cmd, &o.files, &o.capabilities)
	f.StringVar(&o.logLevel, "log-level", "info", "trace, debug, info, warn or error")
	f.BoolVarP(&o.v1Version, "version", "v", false, "print the version as nvidia-docker-plugin did")
	return cmd
}

func (o *serveOptions) validate() error {
	if o.address != "" {
		if err := serve.ValidateAddress(o.address); err != nil {
			return usage(err)
		}
	}
	if hclog.LevelFromString(o.logLevel) == hclog.NoLevel {
		return usage(fmt.Errorf("log level %q is unknown; use trace, debug, info, warn or error", o.logLevel))
	}
	if o.socketDir == "" {
		return nil
	}
	dir, err := absolute(o.socketDir)
	o.socketDir = dir
	return err
}

// absolute is a directory as seen from where the command was called.
func absolute(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", usage(fmt.Errorf("directory %q: %w", dir, err))
	}
	return abs, nil
}

// serve runs until ctx ends.
func (a *app) serve(ctx context.Context, o *serveOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "gpu-docker", Level: hclog.LevelFromString(o.logLevel), Output: a.stderr})
	host, err := a.openHostLogged(log.Named("gpuhost"))
	if err != nil {
		return err
	}
	defer host.Close()
	store, err := openStore(&o.volumeOptions, host, log.Named("volume"))
	if err != nil {
		return err
	}
	changed, unwatch := host.Watch() // without it no XID event is waited for
	defer unwatch()
	if inv := host.Inventory(ctx); inv.Reason != "" {
		log.Warn("no GPU can be served now; a driver that is loaded later is noticed", "reason", inv.Reason)
	}
	server, err := serve.Start(ctx, serve.Config{
		APIAddress:      o.address,
		API:             restapi.Handler(restapi.Config{Host: host, Volumes: store, Logger: log}),
		VolumeSocketDir: o.socketDir,
		Volumes:         store.Handler(),
		Logger:          log,
	})
	if err != nil {
		return usage(err)
	}
	if err := a.tellReady(); err != nil {
		log.Warn("the service manager does not hear that this program serves", "error", err)
	}
	var ahead sync.WaitGroup
	ahead.Go(func() { buildAhead(ctx, host, store, changed, log) })
	server.Wait()
	ahead.Wait()
	log.Info("terminated")
	return nil
}
