// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Command bench measures the task driver against Nomad's built-in docker driver
// on the same agent and engine, one after the other within the same minutes,
// because the speed of a machine drifts. It prints tables in Markdown.
//
// A figure is the median of its runs, with the smallest and the largest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// sizes say how much is measured.
type sizes struct {
	starts, batches, batchTasks, logs, logMB, execs, idleTasks int

	quiet time.Duration // of an agent without tasks
}

// The sets; the small one shows in a minute that all works.
var (
	largeSizes = sizes{starts: 8, batches: 1, batchTasks: 50, logs: 1, logMB: 200, execs: 8, idleTasks: 100, quiet: 2 * time.Minute}
	fullSizes  = sizes{starts: 10, batches: 2, batchTasks: 20, logs: 2, logMB: 50, execs: 10, idleTasks: 30, quiet: time.Minute}
	smallSizes = sizes{starts: 2, batches: 1, batchTasks: 3, logs: 1, logMB: 5, execs: 2, idleTasks: 3, quiet: 5 * time.Second}
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "folder of the built programs")
	collectors := flags.String("collectors", "nomad,driver", "log collectors of the task driver to measure; empty for none")
	small := flags.Bool("small", false, "only a few runs of each")
	plugins := flags.Bool("plugins", true, "also what the plugins need without tasks")
	large := flags.Bool("large", false, "100 idle tasks, batches of 50, logs of 200 MB")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := fullSizes
	switch {
	case *small:
		n = smallSizes
	case *large:
		n = largeSizes
	}
	for i, collector := range strings.FieldsFunc(*collectors, func(r rune) bool { return r == ',' }) {
		t, err := measure(ctx, *bin, collector, n, i%2 == 1)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			return 1
		}
		fmt.Printf("Collector `%s`:\n\n%s\n", collector, t)
	}
	if *plugins {
		text, err := measurePlugins(ctx, *bin, n)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			return 1
		}
		fmt.Println(text)
	}
	return 0
}

// say tells people what is going on, beside the tables.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// measure takes all measurements on one agent. In each of them the drivers take
// turns; reverse begins with the other one.
func measure(ctx context.Context, bin, collector string, n sizes, reverse bool) (t *table, err error) {
	s, err := setUp(ctx, bin, collector, "none", n)
	defer func() { err = errors.Join(err, s.tearDown()) }()
	if err != nil {
		return nil, err
	}
	if reverse {
		s.drivers = []string{ours, peer}
	}
	t = &table{}
	for _, m := range []struct {
		what string
		take func(*table) error
	}{
		{"memory and processor time of idle tasks", s.idle},
		{"starts", s.starts},
		{"batches", s.batches},
		{"exec", s.execs},
		{"logs", s.logs},
	} {
		load, _ := os.ReadFile("/proc/loadavg")
		say("%s: %s; load %s", collector, m.what, strings.TrimSpace(string(load)))
		if err := m.take(t); err != nil {
			return nil, fmt.Errorf("%s: %w", m.what, err)
		}
	}
	return t, nil
}
