// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"path/filepath"
	"slices"
)

// Role is what one call of the binary is for.
type Role int

// The roles of the binary.
const (
	RoleCommand   Role = iota // a command line for people
	RoleDriver                // Nomad's task driver plugin gpu-docker
	RoleDevice                // Nomad's device plugin nvidia-gpu
	RoleWrapper               // nvidia-docker of v1
	RoleLogHolder             // the node's helper that keeps log FIFOs open
)

// LogHolderCommand is the sub-command by which the driver starts this binary as
// the node's log holder. It is no command for people and so not in the help.
const LogHolderCommand = "log-holder"

// RoleOf tells what a call means. args are the program's name and arguments;
// byNomad says that Nomad's handshake cookie is in the environment.
//
// A plugin role needs the cookie; without it the call is a command line, which
// explains how plugins are loaded.
func RoleOf(args []string, byNomad bool) Role {
	if len(args) == 0 {
		return RoleCommand
	}
	name, rest := filepath.Base(args[0]), args[1:]
	switch {
	case name == "nvidia-docker":
		return RoleWrapper
	case startsWith(rest, LogHolderCommand):
		return RoleLogHolder
	}
	if !byNomad {
		return RoleCommand
	}
	switch {
	case startsWith(rest, "plugin", "device"):
		return RoleDevice
	case startsWith(rest, "plugin", "driver"):
		return RoleDriver
	case len(rest) > 0 && isCommand(rest[0]):
		return RoleCommand
	case name == "nvidia-gpu":
		return RoleDevice
	default:
		return RoleDriver
	}
}

func startsWith(args []string, words ...string) bool {
	return len(args) >= len(words) && slices.Equal(args[:len(words)], words)
}

// isCommand says whether an argument names one of our commands. Nomad appends
// the args of the plugin block, which are none of them (task-driver PL-8).
func isCommand(arg string) bool {
	root := newRootCommand(&app{})
	for _, c := range root.Commands() {
		if c.Name() == arg && c.Name() != "plugin" {
			return true
		}
	}
	return false
}
