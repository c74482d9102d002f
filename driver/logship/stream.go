// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

const (
	// rewind is how far before a position the log is opened again: entries of
	// the two streams may stand in the log in another order than their times.
	rewind = 10 * time.Second
	// tailEntries is how many entries are looked at again after the end of a
	// following stream. The engine finds them without reading the whole log.
	tailEntries = 200
)

// streamKind is how much of the log a stream of the engine gives.
type streamKind int

const (
	following streamKind = iota // from the position on, until the container's log ends
	rest                        // from the position on, as far as there is
	tail                        // the last entries
)

// openLog opens the engine's log, a little before a position.
func openLog(ctx context.Context, e Engine, id string, from position, how streamKind) (io.ReadCloser, error) {
	opts := container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: how == following}
	switch {
	case how == tail:
		opts.Tail = strconv.Itoa(tailEntries)
	case from.Last != 0:
		at := max(from.Last-rewind.Nanoseconds(), 1)
		opts.Since = fmt.Sprintf("%d.%09d", at/1e9, at%1e9)
	}
	return e.ContainerLogs(ctx, id, opts)
}

// cannotRead says that the container's log driver keeps nothing to read; that
// does not change while the container lives (task-driver LG-4).
func cannotRead(err error) bool {
	return cerrdefs.IsNotImplemented(err) || strings.Contains(err.Error(), "does not support reading")
}
