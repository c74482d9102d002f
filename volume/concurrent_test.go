// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
	"go.uber.org/goleak"
)

// TestConcurrentCreates: ten requests in this process and two other processes
// at once give one tree (VOL-13).
func TestConcurrentCreates(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(t.TempDir(), "volumes")
	s := newStore(t, Config{Dir: dir}, smallHost(t, root))
	var others []*exec.Cmd
	for range 2 {
		cmd := child(t, "ensure", root, dir)
		must.NoError(t, cmd.Start())
		others = append(others, cmd)
	}
	answers := make([]errAnswer, 10)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = s.create(t.Context(), Name(v550)).(errAnswer) })
	}
	all.Wait()
	for _, a := range answers {
		must.Nil(t, a.Err)
	}
	for _, cmd := range others {
		must.NoError(t, cmd.Wait())
	}
	must.NoError(t, s.intact(v550))
	must.Eq(t, smallTree, listTree(t, s.tree(v550)))
	volumes, err := s.List()
	must.NoError(t, err)
	must.Len(t, 1, volumes)
}

// TestLockWaitEndsWithContext: who waits for a build can give up, leaves
// nothing behind, and does not keep the lock from others.
func TestLockWaitEndsWithContext(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filepath.Join(t.TempDir(), "volumes")
	host := smallHost(t, t.TempDir())
	here, there := newStore(t, Config{Dir: dir}, host), newStore(t, Config{Dir: dir}, host)
	unlock, err := here.lock(t.Context())
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, s := range []*Store{here, there} { // the same store, and as another process would
		_, err = s.Ensure(ctx)
		must.ErrorIs(t, err, context.Canceled)
	}
	unlock()
	_, err = there.Ensure(t.Context())
	must.NoError(t, err)
}
