// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package orphan ends plugin processes that nobody will ever use.
//
// A Nomad agent first starts each plugin only to ask for its schema and to check
// its options. An agent that dies just then, as it does after a wrong option of
// any plugin, leaves these processes behind, and no later agent knows of them.
// A plugin that an agent has used is another matter: it must outlive a crash of
// the agent, because the next one attaches to it again (task-driver PL-11).
//
// The parent's death shows in the parent's process id, which changes then. An
// agent that is the first process of its container never leaves orphans.
package orphan

import (
	"os"
	"time"
)

// checkPeriod is how often the parent is looked at until the plugin is used.
const checkPeriod = time.Second

// EndUnlessUsed ends this process, with status 0, when its parent is gone before
// inUse is true for the first time; after that it looks no more. It returns at
// once. InUse is called from another goroutine, once a second.
func EndUnlessUsed(inUse func() bool) {
	parent := os.Getppid()
	go func() {
		if outlives(func() bool { return os.Getppid() == parent }, inUse, checkPeriod) {
			os.Exit(0)
		}
	}()
}

// outlives waits until the parent is gone or the process is in use, and says
// whether it is left without ever having been in use.
func outlives(parentLives, inUse func() bool, period time.Duration) bool {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for range tick.C {
		// The parent first: what it asked for before its death counts.
		gone := !parentLives()
		if inUse() {
			return false
		}
		if gone {
			return true
		}
	}
	return false
}
