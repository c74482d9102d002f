// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// measurePlugins tells what an agent without tasks and its plugins need on a host
// with eight GPUs, with their default periods, as a table in Markdown.
func measurePlugins(ctx context.Context, bin string, n sizes) (text string, err error) {
	s, err := setUp(ctx, bin, "nomad", "a100x8-535", n)
	defer func() { err = errors.Join(err, s.tearDown()) }()
	if err != nil {
		return "", err
	}
	say("an agent without tasks for %v", n.quiet)
	before, err := s.settledNeeds()
	if err != nil {
		return "", err
	}
	if err := s.wait(n.quiet); err != nil {
		return "", err
	}
	after, err := s.needs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Eight GPUs, no task, %v:\n\n| process | share of one processor, %% | resident, MiB |\n| --- | --- | --- |\n", n.quiet)
	for _, role := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[role]; !there {
			return "", fmt.Errorf("%s was started only during the measurement", role)
		}
		share := 100 * (after[role].cpu - before[role].cpu) / n.quiet.Seconds()
		fmt.Fprintf(&b, "| %s | %.2f | %.1f |\n", role, share, after[role].rss)
	}
	return b.String(), nil
}
