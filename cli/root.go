// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

const rootHelp = `NVIDIA GPUs for containers: a Nomad task driver and device plugin, and a command
line that needs neither.

With Nomad: put the folder of the plugins (bin/plugins after "make build") into
the agent's plugin_dir and restart the agent. The agent starts gpu-docker and
nvidia-gpu itself; a call by hand is always a command line.

Without Nomad: "gpu-docker serve" gives docker the volume driver nvidia-docker and
serves the REST API on port 3476; "gpu-docker run" is docker run with GPUs.

Exit codes: 0 done, 1 failed, 2 wrong usage; "check" and "doctor" tell their own.`

const rootExample = `  gpu-docker doctor                        is this host ready?
  gpu-docker info                          which GPUs are here?
  gpu-docker check nvidia/cuda:9.0-base    would this image run here?
  gpu-docker run --rm nvidia/cuda:9.0-base nvidia-smi -L`

// newRootCommand builds the command tree.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:          "gpu-docker",
		Short:        "NVIDIA GPUs for containers, with and without Nomad",
		Version:      Version,
		Long:         rootHelp,
		Example:      rootExample,
		Args:         unknownCommand,
		RunE:         explain,
		SilenceUsage: true,
		// Flags before a command are ours even if the command is docker's.
		TraverseChildren: true,
		SilenceErrors:    true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help"))
	})
	a.addGlobalFlags(root)
	root.AddCommand(
		newInfoCommand(a),
		newStatusCommand(a),
		newCheckCommand(a),
		newRunCommand(a, "run", "docker run with GPUs"),
		newRunCommand(a, "create", "docker create with GPUs"),
		newDoctorCommand(a),
		newServeCommand(a),
		newVolumeCommand(a),
		newUninstallCommand(a),
		newVersionCommand(a),
		newPluginCommand(),
	)
	return root
}

// addGlobalFlags adds the flags that every command takes.
func (a *app) addGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.driverRoot, "driver-root", a.env("GPU_DOCKER_DRIVER_ROOT", "/"),
		"where the NVIDIA driver is installed; also GPU_DOCKER_DRIVER_ROOT")
	flags.StringVar(&a.nvmlLibrary, "nvml-library", a.env("GPU_DOCKER_NVML_LIBRARY", ""),
		"path of libnvidia-ml.so.1 if it is not below the driver root; also GPU_DOCKER_NVML_LIBRARY")
}

// env is an environment variable, or a default when it is empty or unset.
func (a *app) env(key, otherwise string) string {
	if a.getenv != nil {
		if v := a.getenv(key); v != "" {
			return v
		}
	}
	return otherwise
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(fmt.Errorf("unknown command %q; %q lists the commands", args[0], cmd.CommandPath()+" --help"))
}

// explain answers a call by hand without a command (task-driver PL-7).
func explain(cmd *cobra.Command, _ []string) error {
	if err := cmd.Help(); err != nil {
		return err
	}
	return &exitError{code: exitFailed}
}

// newPluginCommand is reached only without Nomad's cookie: main hands plugin
// roles over before any command line is parsed.
func newPluginCommand() *cobra.Command {
	notLaunched := func(*cobra.Command, []string) error {
		return errors.New("this is a Nomad plugin and was not launched by a Nomad agent; put it into the agent's plugin_dir and restart the agent")
	}
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Be a Nomad plugin (only a Nomad agent calls this)",
		Long: `Names the plugin's role when the file name cannot: args = ["plugin", "driver"] or
args = ["plugin", "device"] in the agent's plugin block.`,
		RunE: notLaunched,
	}
	for _, role := range []string{"driver", "device"} {
		cmd.AddCommand(&cobra.Command{Use: role, Short: "Be the task " + role + " plugin", RunE: notLaunched})
	}
	cmd.Commands()[0].Short = "Be the device plugin nvidia-gpu"
	cmd.Commands()[1].Short = "Be the task driver gpu-docker"
	return cmd
}
