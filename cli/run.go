// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/cli/wrapper"
)

const runHelp = `Runs docker %[1]s with the GPU arguments of nvidia-docker 1.0 put in front of the
image: the devices and the driver volume. An image without the label
com.nvidia.volumes.needed is no GPU image and gets none. An image that needs a
newer CUDA than the driver supports is refused.

All options behind %[1]s are docker's, except --driver-root and --nvml-library, which
must come first. Called as nvidia-docker, this program passes every docker command.

Environment:
  NV_GPU        GPUs to give: indexes or UUIDs, separated by commas or blanks; all
  NV_DOCKER     docker command with leading arguments, "sudo docker -D"; docker
  NV_HOST       where the GPUs are: [(http|ssh)://][user@][host][:ssh-port]:[port]
  DOCKER_HOST   where docker is, and the GPUs if NV_HOST is empty
  NV_DEBUG      anything: add a stack trace to an error

Exit code: docker's, or 1 when docker was not started.`

// newRunCommand is docker run, or create, with GPUs.
func newRunCommand(a *app, verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:                   verb + " [docker options] IMAGE [command]",
		Short:                 short,
		Long:                  strings.ReplaceAll(runHelp, "%[1]s", verb),
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "--help" {
				return cmd.Help()
			}
			args = a.takeGlobalFlags(args)
			code := a.wrap(cmd.Context(), "gpu-docker", append([]string{verb}, args...))
			return exitWith(code)
		},
	}
}

// takeGlobalFlags reads our own flags from the front of docker's arguments.
func (a *app) takeGlobalFlags(args []string) []string {
	flags := map[string]*string{"--driver-root": &a.driverRoot, "--nvml-library": &a.nvmlLibrary}
	for len(args) > 0 {
		name, value, attached := strings.Cut(args[0], "=")
		target := flags[name]
		switch {
		case target == nil:
			return args
		case attached:
			*target, args = value, args[1:]
		case len(args) > 1:
			*target, args = args[1], args[2:]
		default:
			return args
		}
	}
	return args
}

// NVIDIADocker is the command nvidia-docker; args are the program's name and
// arguments. It returns the exit code if docker did not take over.
func NVIDIADocker(args []string) int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	newRootCommand(a) // global flags get their values from the environment
	return a.wrap(context.Background(), args[0], args[1:])
}

func (a *app) wrap(ctx context.Context, program string, args []string) int {
	return wrapper.Run(ctx, wrapper.Config{
		Program:  program,
		Args:     args,
		Release:  v1Release,
		Getenv:   a.getenv,
		Stdout:   a.stdout,
		Stderr:   a.stderr,
		OpenHost: func() (wrapper.Host, error) { return a.openHost() },
	})
}

// exitWith ends the program with a code whose reason was told already.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}
