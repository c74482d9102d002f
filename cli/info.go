// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// newInfoCommand prints what gpu/info answers, without a server.
func newInfoCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show the driver and the GPUs of this host",
		Long: `Shows the driver's version, the newest CUDA it supports, and the facts about each
GPU: exactly what GET /v1.0/gpu/info answers, or with --json /v1.0/gpu/info/json.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.print(cmd.Context(), func(ctx context.Context, host *gpuhost.Host) ([]byte, error) {
				info, err := restapi.NewInfo(host.Inventory(ctx))
				if err != nil {
					return nil, err
				}
				if asJSON {
					return info.JSON()
				}
				return info.Text(), nil
			})
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// newStatusCommand prints what gpu/status answers, without a server.
func newStatusCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the GPUs of this host are doing",
		Long: `Shows power, temperature, utilisation, memory, errors and processes of each GPU:
exactly what GET /v1.0/gpu/status answers, or with --json /v1.0/gpu/status/json.
A GPU that cannot be read shows N/A (null) everywhere.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.print(cmd.Context(), func(ctx context.Context, host *gpuhost.Host) ([]byte, error) {
				status, err := restapi.NewStatus(host.Inventory(ctx), host.Readings(ctx))
				if err != nil {
					return nil, err
				}
				if asJSON {
					return status.JSON()
				}
				return status.Text(), nil
			})
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func addJSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "answer in JSON")
}

// print writes what render makes of this host.
func (a *app) print(ctx context.Context, render func(context.Context, *gpuhost.Host) ([]byte, error)) error {
	host, err := a.openHost()
	if err != nil {
		return err
	}
	defer host.Close()
	body, err := render(ctx, host)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(body)
	return err
}
