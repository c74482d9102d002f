// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// TestMovePidsLeavesOthersAlone: a task may end before it is pinned; the kernel
// then shows its process in the root cgroup, with everything else of the host.
func TestMovePidsLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	const id = "0f3a9c5e7d1b0f3a9c5e7d1b0f3a9c5e7d1b0f3a9c5e7d1b0f3a9c5e7d1b0f3a"
	for name, pid := range map[string]int{"a process outside of the container": os.Getpid(), "no process": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			must.NoError(t, movePids(pid, id, dir))
			_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
			must.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}
