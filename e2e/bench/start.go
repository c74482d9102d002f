// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/api"
)

// starts measures a task that does nothing, and the engine's own part of it.
func (s *site) starts(t *table) error {
	start := t.row("received → started", "ms")
	beyond := t.row("of it beyond create and start through the engine's API", "ms")
	var floor samples
	before, err := s.startTimes()
	if err != nil {
		return err
	}
	err = s.turns(s.sizes.starts, func(driver string) error {
		if driver == s.drivers[0] {
			took, err := s.rawStart()
			if err != nil {
				return err
			}
			floor = append(floor, took)
		}
		jobID, _, allocs, err := s.run(driver, "batch", 1, "true", api.AllocClientStatusComplete)
		if err != nil {
			return err
		}
		took := eventTime(allocs[0], api.TaskStarted).Sub(eventTime(allocs[0], api.TaskReceived))
		start.add(driver, milliseconds(took))
		return s.agent.StopJob(s.ctx, jobID)
	})
	for driver, all := range start.values {
		for _, v := range all {
			beyond.add(driver, v-floor.median())
		}
	}
	if err != nil {
		return err
	}
	own, err := s.startTimes()
	t.note("create and start through the engine's API alone: %s ms", floor)
	t.note("the whole StartTask of `%s`: %s ms", ours, own[len(before):])
	return err
}

// startTimes are the durations of StartTask that our driver has logged so far.
func (s *site) startTimes() (samples, error) {
	text, err := os.ReadFile(s.agent.LogFile())
	if err != nil {
		return nil, err
	}
	var all samples
	for _, found := range startedLine.FindAllStringSubmatch(string(text), -1) {
		took, err := time.ParseDuration(found[1])
		if err != nil {
			return nil, err
		}
		all = append(all, milliseconds(took))
	}
	return all, nil
}

var startedLine = regexp.MustCompile(`(?m)gpu-docker: task started:.* took=([^ ]+)`)

// rawStart creates and starts the same container without Nomad.
func (s *site) rawStart() (ms float64, err error) {
	init := true
	begun := time.Now()
	made, err := s.engine.Client.ContainerCreate(s.ctx,
		&container.Config{Image: benchImage, Cmd: []string{"/bin/sh", "-c", "true"}},
		&container.HostConfig{Init: &init, Resources: container.Resources{CPUShares: 20, Memory: 32 << 20}}, nil, nil, "")
	if err != nil {
		return 0, err
	}
	if err := s.engine.Client.ContainerStart(s.ctx, made.ID, container.StartOptions{}); err != nil {
		return 0, err
	}
	ms = milliseconds(time.Since(begun))
	return ms, s.engine.Client.ContainerRemove(s.ctx, made.ID, container.RemoveOptions{Force: true})
}

// batches measures many tasks that do nothing, from the wish to the last end.
func (s *site) batches(t *table) error {
	wall := t.row(fmt.Sprintf("batch of %d tasks, wall time", s.batchTasks), "s")
	return s.turns(s.sizes.batches, func(driver string) error {
		jobID, begun, allocs, err := s.run(driver, "batch", s.batchTasks, "true", api.AllocClientStatusComplete)
		if err != nil {
			return err
		}
		var last time.Time
		for _, alloc := range allocs {
			if at := eventTime(alloc, api.TaskTerminated); at.After(last) {
				last = at
			}
		}
		wall.add(driver, last.Sub(begun).Seconds())
		return s.agent.StopJob(s.ctx, jobID)
	})
}

// execs measures a command in a running task, through the agent.
func (s *site) execs(t *table) error {
	took := t.row("alloc exec", "ms")
	allocs := map[string]*api.Allocation{}
	for _, driver := range s.drivers {
		jobID, _, running, err := s.run(driver, "service", 1, "sleep 3600", api.AllocClientStatusRunning)
		if err != nil {
			return err
		}
		allocs[driver] = running[0]
		defer func() { _ = s.agent.StopJob(s.ctx, jobID) }()
	}
	return s.turns(s.sizes.execs, func(driver string) error {
		var out, errOut bytes.Buffer
		begun := time.Now()
		code, err := s.agent.API.Allocations().Exec(s.ctx, allocs[driver], "t", false, []string{"echo", "here"},
			strings.NewReader(""), &out, &errOut, make(chan api.TerminalSize), nil)
		if err != nil || code != 0 || out.String() != "here\n" {
			return fmt.Errorf("exec: code %d, output %q, %w", code, out.String()+errOut.String(), err)
		}
		took.add(driver, milliseconds(time.Since(begun)))
		return nil
	})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
