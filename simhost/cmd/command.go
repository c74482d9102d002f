// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// rootEnv is the variable that gpu-docker's own commands know as well.
const rootEnv = "GPU_DOCKER_DRIVER_ROOT"

// flags are the values of the options that several commands have.
type flags struct {
	root string
	gpu  int
	out  io.Writer
}

// rootCommand is the whole command line; answers go to out.
func rootCommand(out io.Writer) *cobra.Command {
	f := &flags{out: out}
	cmd := &cobra.Command{
		Use:   "simhost",
		Short: "Make and control simulated GPU hosts",
		Long: `simhost makes a directory that looks like the root of a machine with NVIDIA GPUs:
driver libraries that answer like NVIDIA's, device nodes, and what the kernel
module shows. Point gpu-docker at it with --driver-root, or the option driver_root.

What the other commands change is seen at once by every process that uses the host.`,
		Example: `  simhost up --root /tmp/gpuhost --profile k80x4-352
  gpu-docker info --driver-root /tmp/gpuhost
  simhost set --root /tmp/gpuhost --gpu 0 temperature=91 power=148.5
  simhost xid --root /tmp/gpuhost --gpu 0 79
  simhost down --root /tmp/gpuhost`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetOut(out)
	cmd.PersistentFlags().StringVar(&f.root, "root", os.Getenv(rootEnv), "directory of the simulated host, default $"+rootEnv)
	cmd.AddCommand(upCommand(f), f.downCommand(), profilesCommand(f), f.setCommand(), f.xidCommand(), f.loseCommand(), f.restoreCommand(),
		f.failCommand(), f.slowCommand(), f.unloadCommand(), f.loadCommand(), f.upgradeCommand(), f.callsCommand())
	return cmd
}

// hostCommand is a command about a host that is up.
func (f *flags) hostCommand(use, short string, args cobra.PositionalArgs, run func(*simhost.Host, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(_ *cobra.Command, args []string) error {
		if f.root == "" {
			return fmt.Errorf("which host? name its directory with --root, or in %s", rootEnv)
		}
		h, err := simhost.Open(f.root)
		if err != nil {
			return err
		}
		return run(h, args)
	}}
}

// needGPU adds the option that chooses one GPU.
func (f *flags) needGPU(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().IntVar(&f.gpu, "gpu", 0, "number of the GPU in the profile, from 0")
	if err := cmd.MarkFlagRequired("gpu"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

func (f *flags) downCommand() *cobra.Command {
	return f.hostCommand("down", "Remove a simulated host and its directory", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error { return h.Down() })
}

func (f *flags) setCommand() *cobra.Command {
	cmd := f.needGPU(f.hostCommand("set --gpu N KEY=VALUE…", "Change readings of a GPU", cobra.MinimumNArgs(1),
		func(h *simhost.Host, args []string) error {
			values := map[string]string{}
			for _, arg := range args {
				key, value, ok := strings.Cut(arg, "=")
				if !ok {
					return fmt.Errorf("%q does not look like KEY=VALUE, for example temperature=91", arg)
				}
				values[key] = value
			}
			return h.Set(f.gpu, values)
		}))
	cmd.Long = "Change readings of a GPU. The value null means that the GPU does not tell the reading.\nKeys: " + strings.Join(simhost.SetKeys(), " ")
	cmd.Example = "  simhost set --root DIR --gpu 1 temperature=84 memory=10GiB power=231W\n" +
		"  simhost set --root DIR --gpu 1 processes=4711:512MiB:python\n  simhost set --root DIR --gpu 1 utilization=null"
	return cmd
}

func (f *flags) xidCommand() *cobra.Command {
	return f.needGPU(f.hostCommand("xid --gpu N CODE", "Report a critical error (XID) of a GPU", cobra.ExactArgs(1),
		func(h *simhost.Host, args []string) error {
			code, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("XID %q is not a number", args[0])
			}
			return h.XID(f.gpu, code)
		}))
}

func (f *flags) loseCommand() *cobra.Command {
	return f.needGPU(f.hostCommand("lose --gpu N", "Let a GPU fall off the bus", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error { return h.Lose(f.gpu) }))
}

func (f *flags) restoreCommand() *cobra.Command {
	return f.needGPU(f.hostCommand("restore --gpu N", "Bring a lost GPU back", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error { return h.Restore(f.gpu) }))
}

const callHelp = "function: a name without version means all its versions, _v1 the one without number, * all of NVML"

func (f *flags) failCommand() *cobra.Command {
	var call string
	var code int
	cmd := f.hostCommand("fail --call NAME --code N", "Let a function fail with a return code; 0 takes that back", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error { return h.Fail(call, code, f.gpu) })
	cmd.Flags().StringVar(&call, "call", "", callHelp)
	cmd.Flags().IntVar(&code, "code", 0, "return code of NVML, 3 not supported, 15 GPU is lost, 999 unknown")
	cmd.Flags().IntVar(&f.gpu, "gpu", simhost.AllGPUs, "only for calls about this GPU; -1: for all calls")
	return requireFlags(cmd, "call", "code")
}

func (f *flags) slowCommand() *cobra.Command {
	var call string
	var ms int
	cmd := f.hostCommand("slow --call NAME --ms N", "Let a function take long; 0 takes that back and ends waiting calls", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error {
			return h.Slow(call, time.Duration(ms)*time.Millisecond, f.gpu)
		})
	cmd.Flags().StringVar(&call, "call", "", callHelp)
	cmd.Flags().IntVar(&ms, "ms", 0, "milliseconds that each call takes at least")
	cmd.Flags().IntVar(&f.gpu, "gpu", simhost.AllGPUs, "only for calls about this GPU; -1: for all calls")
	return requireFlags(cmd, "call", "ms")
}

func requireFlags(cmd *cobra.Command, names ...string) *cobra.Command {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a wrong name is a mistake in this file
		}
	}
	return cmd
}

func (f *flags) unloadCommand() *cobra.Command {
	return f.hostCommand("unload", "Unload the kernel module", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error { return h.Unload() })
}

func (f *flags) loadCommand() *cobra.Command {
	return f.hostCommand("load", "Load the kernel module", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error { return h.Load() })
}

func (f *flags) upgradeCommand() *cobra.Command {
	var version string
	var librariesOnly bool
	cmd := f.hostCommand("upgrade --to VERSION", "Install another driver version", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error {
			if librariesOnly {
				return h.UpgradeLibraries(version)
			}
			return h.Upgrade(version)
		})
	cmd.Flags().StringVar(&version, "to", "", "driver version, for example 535.104.05")
	cmd.Flags().BoolVar(&librariesOnly, "libraries-only", false, "keep the old kernel module loaded, as after an unattended upgrade; unload and load end that")
	return requireFlags(cmd, "to")
}
