// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// fakeEngine is an engine with images in memory. A pull brings what remote has;
// when feed is set the test writes the pull's stream itself.
type fakeEngine struct {
	mu      sync.Mutex        // guards everything below
	local   map[string]string // reference to id
	remote  map[string]string
	pulls   []imagetypes.PullOptions
	removed []string
	loaded  int

	pullErr    error
	streamErr  string // error inside a stream with status 200
	loadStream string
	removeErrs []error // answers of the next removals
	feed       func(w *io.PipeWriter)
	removing   chan struct{} // if set, a removal waits for it
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{local: map[string]string{}, remote: map[string]string{}}
}

func (f *fakeEngine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (imagetypes.InspectResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, ok := f.local[ref]
	if !ok && slices.Contains(slices.Collect(maps.Values(f.local)), ref) {
		id, ok = ref, true
	}
	if !ok {
		return imagetypes.InspectResponse{}, fmt.Errorf("no such image: %s: %w", ref, cerrdefs.ErrNotFound)
	}
	return imagetypes.InspectResponse{ID: id, Os: "linux", Architecture: "amd64", Size: 1 << 20}, nil
}

func (f *fakeEngine) ImagePull(ctx context.Context, ref string, opts imagetypes.PullOptions) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls = append(f.pulls, opts)
	if f.pullErr != nil {
		return nil, f.pullErr
	}
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		if f.feed != nil {
			f.feed(w)
		}
		if f.streamErr != "" {
			_ = json.NewEncoder(w).Encode(map[string]any{"errorDetail": map[string]string{"message": f.streamErr}})
		}
		f.mu.Lock()
		for name, id := range f.remote {
			if strings.HasSuffix(ref, name) {
				f.local[name] = id
			}
		}
		f.mu.Unlock()
		_ = w.Close()
	}()
	return r, nil
}

func (f *fakeEngine) ImageLoad(_ context.Context, archive io.Reader, _ ...client.ImageLoadOption) (imagetypes.LoadResponse, error) {
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return imagetypes.LoadResponse{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded++
	maps.Copy(f.local, f.remote)
	return imagetypes.LoadResponse{Body: io.NopCloser(strings.NewReader(f.loadStream)), JSON: true}, nil
}

func (f *fakeEngine) ImageRemove(ctx context.Context, id string, _ imagetypes.RemoveOptions) ([]imagetypes.DeleteResponse, error) {
	f.mu.Lock()
	wait := f.removing
	f.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, id)
	if len(f.removeErrs) > 0 {
		err := f.removeErrs[0]
		f.removeErrs = f.removeErrs[1:]
		if err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(f.local, func(_, have string) bool { return have == id })
	return nil, nil
}

func (f *fakeEngine) removals() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.removed)
}

func (f *fakeEngine) pullCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pulls)
}
