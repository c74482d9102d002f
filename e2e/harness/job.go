// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Run submits a job given as HCL.
func (a *Agent) Run(hcl string) (*api.Job, error) {
	job, err := a.API.Jobs().ParseHCL(hcl, true)
	if err != nil {
		return nil, fmt.Errorf("parse the job: %w", err)
	}
	if _, _, err := a.API.Jobs().Register(job, nil); err != nil {
		return nil, fmt.Errorf("submit job %q: %w", *job.ID, err)
	}
	return job, nil
}

// WaitAlloc waits until an allocation of the job has the client status and
// returns it. With it come the events, so that a failure tells itself.
func (a *Agent) WaitAlloc(ctx context.Context, jobID, status string) (*api.Allocation, error) {
	var found *api.Allocation
	err := Eventually(ctx, 90*time.Second, func() error {
		stubs, _, err := a.API.Jobs().Allocations(jobID, true, nil)
		if err != nil {
			return err
		}
		seen := []string{}
		for _, stub := range stubs {
			alloc, _, err := a.API.Allocations().Info(stub.ID, nil)
			if err != nil {
				return err
			}
			if alloc.ClientStatus == status {
				found = alloc
				return nil
			}
			seen = append(seen, alloc.ClientStatus+": "+Events(alloc))
		}
		return fmt.Errorf("job %q has no %s allocation; it has [%s]", jobID, status, strings.Join(seen, "; "))
	})
	return found, err
}

// Events are the task events of an allocation as people see them, on one line.
func Events(alloc *api.Allocation) string {
	var texts []string
	for task, state := range alloc.TaskStates {
		for _, e := range state.Events {
			texts = append(texts, fmt.Sprintf("%s %s: %s", task, e.Type, e.DisplayMessage))
		}
	}
	return strings.Join(texts, " | ")
}

// Logs are what a task printed so far; stream is "stdout" or "stderr".
func (a *Agent) Logs(alloc *api.Allocation, task, stream string) (string, error) {
	cancel := make(chan struct{})
	defer close(cancel)
	frames, errs := a.API.AllocFS().Logs(alloc, false, task, stream, api.OriginStart, 0, cancel, nil)
	var b strings.Builder
	for {
		select {
		case frame, open := <-frames:
			if !open {
				return b.String(), nil
			}
			b.Write(frame.Data)
		case err := <-errs:
			if errors.Is(err, io.EOF) {
				return b.String(), nil
			}
			return b.String(), err
		}
	}
}

// WaitLogs waits until what a task printed satisfies the check.
func (a *Agent) WaitLogs(ctx context.Context, alloc *api.Allocation, task string, check func(text string) error) (string, error) {
	var text string
	err := Eventually(ctx, 30*time.Second, func() error {
		var err error
		if text, err = a.Logs(alloc, task, "stdout"); err != nil {
			return err
		}
		return check(text)
	})
	return text, err
}

// StopJob stops and purges a job and waits until its allocations have ended.
func (a *Agent) StopJob(ctx context.Context, jobID string) error {
	stubs, _, err := a.API.Jobs().Allocations(jobID, true, nil)
	if err != nil {
		return err
	}
	if _, _, err := a.API.Jobs().Deregister(jobID, true, nil); err != nil {
		return err
	}
	return Eventually(ctx, time.Minute, func() error {
		for _, stub := range stubs {
			alloc, _, err := a.API.Allocations().Info(stub.ID, nil)
			if err != nil {
				return err
			}
			if !alloc.ClientTerminalStatus() {
				return fmt.Errorf("allocation %s of job %q is still %s", alloc.ID[:8], jobID, alloc.ClientStatus)
			}
		}
		return nil
	})
}
