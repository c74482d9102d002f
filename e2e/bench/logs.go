// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// lineBytes is the length of a line of the log measurement.
const lineBytes = 64

// logs measures a task that prints as fast as it can and exits.
func (s *site) logs(t *table) error {
	speed := t.row(fmt.Sprintf("a task prints %d MB: throughput of what arrived", s.logMB), "MB/s")
	whole := t.row("the same, from its start to its last line", "s")
	lost := t.row("the same, lines lost", "%")
	wrong := t.row("the same, lines doubled or out of order", "%")
	lines := s.logMB * 1_000_000 / lineBytes
	// Numbers of ten digits make lines of the same length; only the last is short.
	script := fmt.Sprintf("exec seq -s '%s\n' 1000000001 %d", strings.Repeat("x", lineBytes-11), 1_000_000_000+lines)
	return s.turns(s.sizes.logs, func(driver string) error {
		jobID, _, allocs, err := s.run(driver, "batch", 1, script, api.AllocClientStatusComplete)
		if err != nil {
			return err
		}
		arrived, last, err := s.settled(allocs[0])
		if err != nil {
			return err
		}
		kept, misplaced, err := s.countLines(allocs[0])
		if err != nil {
			return err
		}
		begun := eventTime(allocs[0], api.TaskStarted)
		whole.add(driver, last.Sub(begun).Seconds())
		speed.add(driver, float64(arrived)/1e6/last.Sub(begun).Seconds())
		lost.add(driver, 100*float64(lines-kept)/float64(lines))
		wrong.add(driver, 100*float64(misplaced)/float64(lines))
		return s.agent.StopJob(s.ctx, jobID)
	})
}

// logFiles are a task's files of standard output, oldest first.
func (s *site) logFiles(alloc *api.Allocation) []string {
	files, _ := filepath.Glob(filepath.Join(s.agent.DataDir(), "alloc", alloc.ID, "alloc", "logs", "t.stdout.[0-9]*"))
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(name), "."))
		return n
	}
	sort.Slice(files, func(i, j int) bool { return number(files[i]) < number(files[j]) })
	return files
}

// settled waits until an ended task's log has not grown for a second, and
// returns its size and the time of the last change.
func (s *site) settled(alloc *api.Allocation) (size int64, last time.Time, err error) {
	err = harness.Eventually(s.ctx, 3*time.Minute, func() error {
		size, last = 0, time.Time{}
		for _, name := range s.logFiles(alloc) {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			size += info.Size()
			if info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
		if time.Since(last) < time.Second {
			return fmt.Errorf("the log still grows")
		}
		return nil
	})
	return size, last, err
}

// countLines counts the different whole lines of a log, and those that come after
// a later one or again.
func (s *site) countLines(alloc *api.Allocation) (kept, misplaced int, err error) {
	seen, latest := map[int]bool{}, 0
	for _, name := range s.logFiles(alloc) {
		file, err := os.Open(name)
		if err != nil {
			return 0, 0, err
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			number := strings.TrimRight(lines.Text(), "x")
			n, err := strconv.Atoi(number)
			if err != nil || len(number) != 10 {
				continue // cut by what is missing around it
			}
			if n <= latest {
				misplaced++
			}
			latest = max(latest, n)
			seen[n] = true
		}
		if err := file.Close(); err != nil {
			return 0, 0, err
		}
	}
	return len(seen), misplaced, nil
}
