// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is the Nomad task driver "gpu-docker": it runs tasks as
// containers of a Docker Engine and gives those that reserved NVIDIA GPUs
// exactly these, with the driver's libraries as a read-only volume.
//
// The model: SetConfig builds [parts] from the options and starts nothing. The
// first call of a live plugin wakes them: the REST server and the volume
// socket, the image collector, the reaper. StartTask is a list of named steps
// (task_start.go) with a roll-back list; from its end on a task stands in the
// store, with one goroutine that waits for its end, until DestroyTask. What
// RecoverTask needs is in the handle that Nomad keeps (handle.go).
//
// Surprises. Nomad calls a plugin in a throw-away process first, sometimes
// beside a live older one, so SetConfig must leave no trace. Errors cross to
// Nomad as text, and one that Nomad may retry must be marked on the outside
// (errors.go). A broken connection to the engine is never the end of a task.
// A task that reserved no GPU is told so by NVIDIA_VISIBLE_DEVICES=void.
//
// What the packages below do: driver/config holds the options, driver/container
// assembles the create request, driver/image gets and collects images,
// driver/logship carries the logs.
//
// Tests against a real Docker Engine:
//
//	go test -tags engine -run TestEngine ./driver/
package driver
