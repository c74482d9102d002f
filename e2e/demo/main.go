// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Command demo shows the product at work on this machine: a real Nomad agent, a
// real Docker Engine, and the machine's GPUs or simulated ones. It tells what it
// does, checks every step and cleans up. "make demo" runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var opts options
	flag.StringVar(&opts.bin, "bin", "bin", "folder with the built programs")
	flag.StringVar(&opts.job, "job", "example.nomad.hcl", "job file to run")
	flag.StringVar(&opts.profile, "sim", "", "simulated GPU host to use; default: the machine's own GPUs, else k80x4-352")
	flag.BoolVar(&opts.keep, "keep", false, "leave the agent running and tell how to use and stop it")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	started := time.Now()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintf(os.Stderr, "\nThe demonstration failed: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("\nEvery step was as promised (%s).\n", time.Since(started).Round(time.Second))
}
