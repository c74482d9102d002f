// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"sort"
	"sync"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// store is the table of the tasks that this process looks after. A task stays
// until DestroyTask, also after its end (task-driver GR-6).
type store struct {
	mu    sync.Mutex // guards everything below
	tasks map[string]*task
	// starting holds the ids between the begin and the end of StartTask or
	// RecoverTask, so that two of one id cannot race (task-driver ST-1).
	starting map[string]struct{}
	// turns are the tasks of allocations, under whatever id, that are being started.
	turns map[string]struct{}
	ended sync.Cond // a turn has
}

func newStore() *store {
	s := &store{tasks: map[string]*task{}, starting: map[string]struct{}{}, turns: map[string]struct{}{}}
	s.ended.L = &s.mu
	return s
}

// Turn waits until no other start of the same task of the same allocation is
// under way: that of an agent that died meanwhile. The result ends this one's.
func (s *store) Turn(cfg *drivers.TaskConfig) (end func()) {
	key := cfg.AllocID + "/" + cfg.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if _, taken := s.turns[key]; !taken {
			break
		}
		s.ended.Wait()
	}
	s.turns[key] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.turns, key)
		s.ended.Broadcast()
	}
}

// Reserve claims a task id. The caller ends the claim with Put or Release.
func (s *store) Reserve(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.tasks[id]
	_, starting := s.starting[id]
	if known || starting {
		return fmt.Errorf("task with ID %q already started", id)
	}
	s.starting[id] = struct{}{}
	return nil
}

// Release ends a claim without a task.
func (s *store) Release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starting, id)
}

// Put turns a claim into a task.
func (s *store) Put(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starting, t.cfg.ID)
	s.tasks[t.cfg.ID] = t
}

// Starting says whether an id is claimed.
func (s *store) Starting(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.starting[id]
	return ok
}

// Get returns a task or drivers.ErrTaskNotFound.
func (s *store) Get(id string) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tasks[id]
	if !ok {
		return nil, drivers.ErrTaskNotFound
	}
	return t, nil
}

// Forget drops a task.
func (s *store) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
}

// All returns the tasks, sorted by id.
func (s *store) All() []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*task, 0, len(s.tasks))
	for _, t := range s.tasks {
		all = append(all, t)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].cfg.ID < all[j].cfg.ID })
	return all
}
