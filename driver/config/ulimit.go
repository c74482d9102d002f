// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// ParseUlimit reads "soft[:hard]"; a single number sets both, -1 is no limit.
func ParseUlimit(name, text string) (*units.Ulimit, error) {
	if text == "" {
		return nil, fmt.Errorf("Malformed ulimit specification %s: %q, cannot be empty", name, text) //nolint:staticcheck // the built-in driver's text
	}
	softText, hardText, both := strings.Cut(text, ":")
	soft, err := strconv.ParseInt(softText, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("Malformed soft ulimit %s: %s; use a whole number, as in %q", name, text, "1024:2048") //nolint:staticcheck // the built-in driver's text
	}
	if !both {
		return &units.Ulimit{Name: name, Soft: soft, Hard: soft}, nil
	}
	hard, err := strconv.ParseInt(hardText, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("Malformed hard ulimit %s: %s; use a whole number, as in %q", name, text, "1024:2048") //nolint:staticcheck // the built-in driver's text
	}
	return &units.Ulimit{Name: name, Soft: soft, Hard: hard}, nil
}

// sortedKeys are the keys of a map in byte order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
