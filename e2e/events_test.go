//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// eventsOf are the task events that the server has now.
func eventsOf(s *site, alloc *api.Allocation) string {
	fresh, _, err := s.agent.API.Allocations().Info(alloc.ID, nil)
	must.NoError(s, err)
	return harness.Events(fresh)
}

// waitBlocked waits until the scheduler says that nothing fits a job.
func (s *site) waitBlocked(jobID string) error {
	return harness.Eventually(s.ctx, 30*time.Second, func() error {
		evals, _, err := s.agent.API.Jobs().Evaluations(jobID, nil)
		if err != nil {
			return err
		}
		for _, e := range evals {
			if e.Status == "blocked" {
				return nil
			}
		}
		return fmt.Errorf("job %q has no blocked evaluation", jobID)
	})
}
