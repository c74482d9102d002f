// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

const (
	// idlePeriod is how long processor time is looked at.
	idlePeriod = 10 * time.Second
	// ticksPerSecond of the kernel's processor times; fixed for all of Linux's users.
	ticksPerSecond = 100
)

// need is what a group of processes has: PSS and resident memory in MiB, and
// processor time in seconds.
type need struct{ pss, rss, cpu float64 }

// idle measures what tasks that do nothing need beyond an agent without them:
// the growth of the agent and of the plugins, and the processes beside them. The
// engine's own processes are not counted.
func (s *site) idle(t *table) error {
	memory := t.row(fmt.Sprintf("%d idle tasks, PSS beyond an empty agent", s.idleTasks), "MiB")
	cpu := t.row("the same, processor time", "ms/s")
	return s.turns(1, func(driver string) error {
		empty, err := s.needs()
		if err != nil {
			return err
		}
		jobID, _, _, err := s.run(driver, "service", s.idleTasks, "sleep 3600", api.AllocClientStatusRunning)
		if err != nil {
			return err
		}
		before, err := s.settledNeeds()
		if err != nil {
			return err
		}
		if err := s.wait(idlePeriod); err != nil {
			return err
		}
		after, err := s.needs()
		if err != nil {
			return err
		}
		var pss, used float64
		var parts []string
		for _, role := range slices.Sorted(maps.Keys(after)) {
			grown := after[role].pss - empty[role].pss
			pss += grown
			used += after[role].cpu - before[role].cpu
			parts = append(parts, fmt.Sprintf("%s %.0f", role, grown))
		}
		memory.add(driver, pss)
		cpu.add(driver, 1000*used/idlePeriod.Seconds())
		t.note("PSS in MiB with driver `%s`: %s", driver, strings.Join(parts, ", "))
		return s.agent.StopJob(s.ctx, jobID)
	})
}

// settledNeeds lets what the starts left behind pass first.
func (s *site) settledNeeds() (map[string]need, error) {
	if err := s.wait(idlePeriod / 2); err != nil {
		return nil, err
	}
	return s.needs()
}

func (s *site) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// needs reads all processes that run the agent's program or a plugin's, by role:
// "agent", "gpu-docker", "nvidia-gpu", "logmon", "docker_logger", "log-holder".
func (s *site) needs() (map[string]need, error) {
	found, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	nomad, err := filepath.EvalSymlinks(filepath.Join(s.bin, "nomad"))
	if err != nil {
		return nil, err
	}
	needs := map[string]need{}
	for _, exe := range found {
		target, err := os.Readlink(exe)
		if err != nil || target != nomad && !strings.HasPrefix(target, filepath.Join(s.bin, "plugins")+"/") {
			continue
		}
		proc := filepath.Dir(exe)
		role := roleOf(proc)
		n := needs[role]
		n.pss += memory(proc, "Pss:")
		n.rss += memory(proc, "Rss:")
		n.cpu += cpuTime(proc)
		needs[role] = n
	}
	return needs, nil
}

// roleOf is the sub-command, or the program's name without one.
func roleOf(proc string) string {
	cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
	words := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	if len(words) > 1 {
		return words[1]
	}
	return filepath.Base(words[0])
}

// memory is a field of smaps_rollup (proc_pid_smaps(5)) in MiB; 0 when the process
// has gone.
func memory(proc, field string) float64 {
	text, _ := os.ReadFile(filepath.Join(proc, "smaps_rollup"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kB, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kB / 1024
		}
	}
	return 0
}

// cpuTime is in seconds, of user and system together; 0 when the process has gone.
func cpuTime(proc string) float64 {
	text, _ := os.ReadFile(filepath.Join(proc, "stat"))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticksPerSecond
}
