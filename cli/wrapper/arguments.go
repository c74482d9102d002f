// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"slices"
	"strings"
)

// booleans are options that take no value; every other option takes the next
// argument unless a value is attached. One list serves all client versions
// (nvidia-docker-v1 CL-5).
type booleans struct {
	long  []string
	short string
}

var globalBooleans = booleans{
	long:  []string{"--debug", "--tls", "--tlsverify", "--version", "--help"},
	short: "Dvh",
}

var runBooleans = booleans{
	long: []string{
		"--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck",
		"--oom-kill-disable", "--privileged", "--publish-all", "--read-only", "--tty",
		"--detach", "--rm", "--sig-proxy", "--quiet", "--use-api-socket",
	},
	short: "iPtdq",
}

// invocation is a docker command line taken apart as far as we need it.
type invocation struct {
	command string // first word that is not an option, empty without one
	image   string // of run and create, empty for all else
	insert  int    // where our arguments go
}

// parseArguments finds the command and, of run and create, the image.
func parseArguments(args []string) invocation {
	at := skipOptions(args, 0, globalBooleans)
	if at >= len(args) {
		return invocation{}
	}
	in := invocation{command: args[at]}
	start := at
	if in.command == "container" && start+1 < len(args) {
		start++
	}
	if args[start] != "run" && args[start] != "create" {
		return in
	}
	image := skipOptions(args, start+1, runBooleans)
	if image >= len(args) {
		return in
	}
	in.image, in.insert = args[image], image
	if args[image-1] == "--" {
		in.insert--
	}
	return in
}

// skipOptions gives the index of the first argument that is not an option
// (nvidia-docker-v1 CL-4); "--" ends the options.
func skipOptions(args []string, at int, known booleans) int {
	for at < len(args) {
		arg := args[at]
		switch {
		case arg == "--":
			return at + 1
		case len(arg) < 2 || arg[0] != '-':
			return at
		case known.takesNext(arg):
			at += 2
		default:
			at++
		}
	}
	return at
}

// takesNext says whether an option takes the next argument as its value.
func (b *booleans) takesNext(option string) bool {
	if strings.Contains(option, "=") {
		return false
	}
	if strings.HasPrefix(option, "--") {
		return !slices.Contains(b.long, option)
	}
	letters := option[1:]
	for i, letter := range letters {
		if !strings.ContainsRune(b.short, letter) {
			return i == len(letters)-1
		}
	}
	return false
}

// inserted gives args with more in front of the image.
func (in *invocation) inserted(args, more []string) []string {
	return slices.Insert(slices.Clone(args), in.insert, more...)
}
