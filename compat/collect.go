// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of variables that hold requirements, and of those that only look so.
const (
	requirePrefix = "NVIDIA_REQUIRE_"
	jetpackPrefix = "NVIDIA_REQUIRE_JETPACK"
)

// collect finds the requirements in an environment, in the order of their names,
// and parses all of them.
func collect(env map[string]string) ([]requirement, *syntaxError) {
	var names []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if isRequirement(name) && strings.TrimFunc(env[name], isBlank) != "" {
			names = append(names, name)
			total += len(name) + min(len(env[name]), MaxValueBytes)
		}
	}
	if total > maxRequirementBytes {
		return nil, &syntaxError{name: requirePrefix + "*", cause: fmt.Sprintf("the image has %d variables of together more than %d bytes", len(names), maxRequirementBytes)}
	}
	reqs := make([]requirement, 0, len(names))
	for _, name := range names {
		r, err := parseRequirement(name, env[name])
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, r)
	}
	return reqs, nil
}

func isRequirement(name string) bool {
	return strings.HasPrefix(name, requirePrefix) && !strings.HasPrefix(name, jetpackPrefix)
}

// DeclaresGPU says where an image declares that it uses GPUs: the name of the
// label or variable, empty if it does not. Such an image runs without a GPU too.
func DeclaresGPU(md Metadata) (source string) {
	if strings.TrimSpace(md.Labels[LabelVolumesNeeded]) != "" {
		return LabelVolumesNeeded
	}
	switch md.Env["NVIDIA_VISIBLE_DEVICES"] {
	case "", "void", "none":
	default:
		return "NVIDIA_VISIBLE_DEVICES"
	}
	if cudaOfImage(md).source == LabelCUDAVersion {
		return LabelCUDAVersion
	}
	for _, name := range slices.Sorted(maps.Keys(md.Env)) {
		if isRequirement(name) && strings.TrimFunc(md.Env[name], isBlank) != "" {
			return name
		}
	}
	return ""
}
