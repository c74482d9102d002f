// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
)

// say tells what is being done.
func say(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) }

// heading starts a step.
func heading(n int, text string) { fmt.Printf("\n==> %d. %s\n", n, text) }

// show prints a command and its output as a terminal would.
func show(command, output string) {
	fmt.Printf("    $ %s\n", command)
	for _, line := range strings.Split(strings.TrimRight(output, "\n"), "\n") {
		fmt.Printf("    %s\n", line)
	}
}

// cut keeps the lines from the first that starts with a word up to the next
// empty line.
func cut(text, from string) string {
	_, rest, found := strings.Cut("\n"+text, "\n"+from)
	if !found {
		return ""
	}
	block, _, _ := strings.Cut(from+rest, "\n\n")
	return block
}
