// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bufio"
	"context"
	"net"
	"slices"
	"sync"

	"github.com/docker/docker/api/types"
	engineapi "github.com/docker/docker/api/types/container"
)

// fakeExec is what a fakeEngine does when something is to run in a container: it
// runs nothing, a test says how that goes.
type fakeExec struct {
	mu       sync.Mutex // guards everything below
	created  engineapi.ExecOptions
	attached engineapi.ExecAttachOptions
	sizes    [][2]uint // height and width of each resize
	state    engineapi.ExecInspect
	output   []byte // what the engine sends; nil keeps the stream open
}

func (x *fakeExec) set(change func(*fakeExec)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(x)
}

func (x *fakeExec) resizes() [][2]uint {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.sizes)
}

func (e *fakeEngine) ExecCreate(_ context.Context, _ string, opts engineapi.ExecOptions) (string, error) {
	e.exec.set(func(x *fakeExec) { x.created = opts })
	return "exec", nil
}

func (e *fakeEngine) ExecAttach(_ context.Context, _ string, opts engineapi.ExecAttachOptions) (types.HijackedResponse, error) {
	here, there := net.Pipe()
	e.exec.set(func(x *fakeExec) {
		x.attached = opts
		if x.output != nil {
			go func(output []byte) {
				defer there.Close()
				_, _ = there.Write(output) // whoever leaves early does not want it
			}(x.output)
		}
	})
	return types.HijackedResponse{Conn: here, Reader: bufio.NewReader(here)}, nil
}

func (e *fakeEngine) ExecResize(_ context.Context, _ string, height, width uint) error {
	e.exec.set(func(x *fakeExec) { x.sizes = append(x.sizes, [2]uint{height, width}) })
	return nil
}

func (e *fakeEngine) ExecInspect(context.Context, string) (engineapi.ExecInspect, error) {
	e.exec.mu.Lock()
	defer e.exec.mu.Unlock()
	return e.exec.state, nil
}
