// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"fmt"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// engineTimeout bounds a question to the engine that only completes an answer.
const engineTimeout = 2 * time.Second

// newVersionCommand prints our version and those of what we stand on.
func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the versions of gpu-docker, the NVIDIA driver and the engine",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.printVersions(cmd.Context())
		},
	}
}

func (a *app) printVersions(ctx context.Context) error {
	host, err := a.openHost()
	if err != nil {
		return err
	}
	defer host.Close()
	inv := host.Inventory(ctx)
	out := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, value string) { say(out, "%s:\t%s\n", name, value) }
	row("gpu-docker", Version)
	row("commit", Commit)
	row("Go", runtime.Version())
	row("NVIDIA driver", orReason(inv.Driver.Version, inv.Reason))
	row("NVML", orReason(inv.Driver.NVMLVersion, "not reachable"))
	row("CUDA", orReason(inv.Driver.CUDA.String(), "not reported"))
	row("Docker Engine", a.engineVersion(ctx))
	return out.Flush()
}

func orReason(value, reason string) string {
	if value == "" {
		return reason
	}
	return value
}

// engineVersion is the engine's release and API version, or why it is unknown.
func (a *app) engineVersion(ctx context.Context) string {
	engine, err := newEngine()
	if err != nil {
		return err.Error()
	}
	defer engine.close()
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	v, err := engine.ServerVersion(ctx)
	if err != nil {
		return "not reachable: " + err.Error()
	}
	return fmt.Sprintf("%s (API %s)", v.Version, v.APIVersion)
}
