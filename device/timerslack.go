// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// timerSlack is by how much the kernel may wake this process later than it asked
// (prctl(2), PR_SET_TIMERSLACK), so as to wake it less often. Nothing here is due
// to the millisecond, but Go's runtime looks after threads that are in the kernel
// every 20 us while one is, which was a third of what an idle plugin cost.
const timerSlack = 2 * time.Millisecond

// relaxTimers sets the slack of all threads of a process, of which later ones
// inherit it. It needs CAP_SYS_NICE.
func relaxTimers(pid int) error {
	relaxed := map[string]bool{}
	for { // a thread may have begun meanwhile
		threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
		if err != nil {
			return fmt.Errorf("timer slack: %w", err)
		}
		before := len(relaxed)
		for _, thread := range threads {
			if relaxed[thread.Name()] {
				continue
			}
			relaxed[thread.Name()] = true
			err := os.WriteFile(filepath.Join("/proc", thread.Name(), "timerslack_ns"), []byte(strconv.FormatInt(timerSlack.Nanoseconds(), 10)), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // the thread has ended
				return fmt.Errorf("timer slack: %w", err)
			}
		}
		if len(relaxed) == before {
			return nil
		}
	}
}
