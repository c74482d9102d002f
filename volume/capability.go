// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"sort"
	"strings"
)

// capSet is a set of driver capabilities.
type capSet uint8

const (
	compute capSet = 1 << iota
	utility
	video
	graphics
	ngx
	compat32
)

// capabilityAll stands for every capability.
const capabilityAll = "all"

var capabilities = map[string]capSet{
	"compute":  compute,
	"utility":  utility,
	"video":    video,
	"graphics": graphics,
	"ngx":      ngx,
	"compat32": compat32,
}

// parseCapabilities reads the option "capabilities". Video and NGX work on CUDA
// memory, so they bring the compute libraries.
func parseCapabilities(names []string) (capSet, error) {
	var set capSet
	for _, name := range names {
		if name == capabilityAll {
			return compute | utility | video | graphics | ngx | compat32, nil
		}
		c, ok := capabilities[name]
		if !ok {
			return 0, fmt.Errorf("capability %q is not known; use %s", name, knownCapabilities())
		}
		set |= c
	}
	if set&(video|ngx) != 0 {
		set |= compute
	}
	return set, nil
}

// names gives the set as a sorted list.
func (c capSet) names() []string {
	names := []string{}
	for name, bit := range capabilities {
		if c&bit != 0 {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// first names one capability of the set, the most basic one.
func (c capSet) first() string {
	for bit := compute; bit <= compat32; bit <<= 1 {
		if c&bit != 0 {
			return bit.names()[0]
		}
	}
	return ""
}

func knownCapabilities() string {
	var all capSet
	for _, bit := range capabilities {
		all |= bit
	}
	return strings.Join(append(all.names(), capabilityAll), ", ")
}
