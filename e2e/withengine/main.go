// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Command withengine runs a command while a Docker Engine is there: the
// machine's own if it runs, else one that it installs, starts and ends again;
// with -newer an Engine 26.1 beside it, which DOCKER_HOST names to the command. That
// one has a network of its own, loopback only, and the command runs in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	flags := flag.NewFlagSet("withengine", flag.ContinueOnError)
	newer := flags.Bool("newer", false, "use a Docker Engine 26.1 of its own")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withengine [-newer] [--] COMMAND [ARGUMENT ...]")
		return 2
	}
	ensure := harness.EnsureEngine
	if *newer {
		ensure = harness.StartNewerEngine
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	engine, err := ensure(ctx, say)
	if err == nil {
		err = harness.EnsurePrograms(ctx, say, harness.RegistryServer)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "no Docker Engine for the tests: %v\n", err)
		return 1
	}
	defer engine.Close()

	args = engine.InNetwork(flags.Args()...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = os.Environ()
	if *newer {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+engine.Host())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
