// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"github.com/hashicorp/nomad/nomad/structs"
)

// Kinds of failures that callers and tests tell apart.
var (
	// ErrGPUUnavailable: what was reserved is not what the task needs or is in
	// use elsewhere; another try or another node may do.
	ErrGPUUnavailable = errors.New("GPU not available")
	// ErrRefused: this task must not run here; trying again changes nothing.
	ErrRefused = errors.New("task refused")
)

// retryLater marks an error that another attempt may cure.
type retryLater struct{ error }

func (e retryLater) Unwrap() error { return e.error }

// recoverable marks err as one that Nomad may cure by starting the task again.
// Wrapping it further is fine; forNomad finds the mark.
func recoverable(err error) error {
	if err == nil {
		return nil
	}
	return retryLater{err}
}

// forNomad moves the recoverable mark to the outside, the only place where it
// crosses the plugin boundary (task-driver GR-7). Errors without a mark stay
// plain: Nomad does not restart the task for them.
func forNomad(err error) error {
	if err == nil {
		return nil
	}
	var marked retryLater
	var byNomad structs.Recoverable
	switch {
	case errors.As(err, &marked):
		return structs.NewRecoverableError(err, true)
	case errors.As(err, &byNomad):
		return structs.NewRecoverableError(err, byNomad.IsRecoverable())
	}
	return err
}

// engineAway says that the engine did not answer: nothing is known about what
// was asked. A cancelled context is not the engine's fault.
func engineAway(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var netErr net.Error
	return client.IsErrConnectionFailed(err) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &netErr)
}

// permanentTexts are parts of answers with status 500 that no retry cures
// (task-driver CC-23): engines send 500 for many faults of the request.
var permanentTexts = []string{
	"unable to find user",
	"no matching entries in passwd file",
	"unable to find group",
	"invalid",
	"rlimit",
	"logging plugin",
	"log opt",
	"error gathering device information",
	"could not select device driver",
	"executable file not found",
	"exec: \"",
	"no such file or directory",
	"permission denied",
	"is not a directory",
	"not a directory",
	"exec format error",
	"requested access to the resource is denied",
	"error mounting",
	"it is not a shared",
	"non-shareable",
	"sysctl",
	"unknown runtime",
	"storage-opt",
	"requested cpus are not available",
	"no space left on device",
}

// addressInUse ends an answer about a port of the host (500) or about a container's
// own address (403). Whoever has it may end.
const addressInUse = "address already in use"

// worthRetrying says that the same call may succeed in a moment.
func worthRetrying(err error) bool {
	if engineAway(err) || errdefs.IsUnavailable(err) {
		return true
	}
	text := strings.ToLower(err.Error())
	if errdefs.IsPermissionDenied(err) {
		return strings.Contains(text, addressInUse)
	}
	if !errdefs.IsInternal(err) {
		return false
	}
	for _, p := range permanentTexts {
		if strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// imageGone: the engine lost the image between our check and the create call
// (task-driver CX-5).
func imageGone(err error) bool {
	return errdefs.IsNotFound(err) && strings.Contains(strings.ToLower(err.Error()), "no such image")
}

// volumeElsewhere: a cluster volume is still attached to another node.
func volumeElsewhere(err error) bool {
	return strings.Contains(err.Error(), "volume is attached on another node")
}

// nameTaken: another container has the wished name. Old engines answer 400. A
// conflict can be about a volume, too.
func nameTaken(err error) bool {
	return (errdefs.IsConflict(err) || errdefs.IsInvalidArgument(err)) && strings.Contains(err.Error(), "Conflict. The")
}
