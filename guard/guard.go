// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package guard keeps a panic in one goroutine from ending the process, and with it
// the plugin of all tasks (task-driver PL-15).
//
// A goroutine that nobody waits for defers Log first of all; one whose result is
// awaited defers Catch, so that those who wait get an error. What else must happen at
// its end (a channel to close, a lock to free) is deferred too: a panic skips the rest.
// Faults of C code, as in NVML itself, are no panics and cannot be caught.
package guard

import (
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
)

// Log is deferred: it ends a panic with a line in the log, if there is one. In names
// what was under way.
func Log(log hclog.Logger, in string) {
	if cause := recover(); cause != nil {
		Tell(log, in, cause)
	}
}

// Catch is deferred: it makes a panic the error of the function that defers it, beside
// the line in the log. Without a panic it changes nothing.
func Catch(log hclog.Logger, in string, err *error) {
	if cause := recover(); cause != nil {
		Tell(log, in, cause)
		*err = fmt.Errorf("internal error in %s: %v; please report it, with the log of the plugin", in, cause)
	}
}

// Tell logs a panic that the caller has recovered, with the stack of this goroutine.
// Log may be nil.
func Tell(log hclog.Logger, in string, cause any) {
	if log == nil {
		return
	}
	log.Error("internal error; please report it", "in", in, "panic", cause, "stack", string(debug.Stack()))
}
