// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Version and Commit are set at link time.
var (
	Version = "0.1.0-dev"
	Commit  = "unknown"
)

// The exit codes of every command but check and doctor.
const (
	exitFailed = 1
	exitUsage  = 2
)

// exitError ends the program with a code. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// app is what all commands share: the streams and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	driverRoot  string
	nvmlLibrary string
}

// Main runs the command line; args are those behind the program's name. It
// returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{code: exitFailed, err: err}
	}
	if exit.err != nil {
		say(a.stderr, "Error: %v\n", exit.err)
		if a.env("NV_DEBUG", "") != "" { // as nvidia-docker-plugin did
			say(a.stderr, "%s", debug.Stack())
		}
	}
	return exit.code
}

// answerPatience is how long a command waits for a slow driver before it answers
// without what the driver has not told: people rather wait than read N/A.
const answerPatience = 20 * time.Second

// openHost opens the GPU host that the global flags name, for one answer. The
// caller closes it.
func (a *app) openHost() (*gpuhost.Host, error) {
	return a.openHostWith(gpuhost.Config{Patience: answerPatience})
}

// openHostLogged is openHost for a server.
func (a *app) openHostLogged(log hclog.Logger) (*gpuhost.Host, error) {
	return a.openHostWith(gpuhost.Config{Logger: log})
}

func (a *app) openHostWith(cfg gpuhost.Config) (*gpuhost.Host, error) {
	cfg.DriverRoot, cfg.NVMLLibrary = a.driverRoot, a.nvmlLibrary
	host, err := gpuhost.Open(cfg)
	if err != nil {
		return nil, usage(err)
	}
	return host, nil
}

// noArguments refuses arguments with a usage error.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(fmt.Errorf("%q takes no argument %q; see %q", cmd.CommandPath(), args[0], cmd.CommandPath()+" --help"))
}

// say writes where an error is of no interest: nobody reads, or a later Flush
// tells.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func usage(err error) error { return &exitError{code: exitUsage, err: err} }
