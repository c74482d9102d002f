// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// samplePeriod is how often open accounts are looked at.
const samplePeriod = 5 * time.Second

// Host gives the shared sample; *gpuhost.Host satisfies it.
type Host interface {
	Readings(ctx context.Context) *gpuhost.Readings
}

// Config of a ledger.
type Config struct {
	Host Host // required
	// File gets a line of JSON for each record; empty means none.
	File string
	// JobMappingDir gets a file for each GPU and MIG device that is held; empty
	// means none.
	JobMappingDir string
	Logger        hclog.Logger
}

// Ledger has the accounts of all GPU tasks of a process. Safe for concurrent use.
type Ledger struct {
	cfg     Config
	file    recordFile
	changed chan struct{} // wakes Run

	jobs        jobMap // Run's
	jobsTrouble string // what the log was told last; Run's

	mu     sync.Mutex // guards everything below
	open   map[string]*account
	closed map[string]restapi.NamespaceUsage // by namespace
	told   map[string]float64                // the GPU seconds that Usage told last, by namespace
}

// New makes an empty ledger; it asks nothing and creates no file.
func New(cfg Config) *Ledger {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Ledger{
		cfg: cfg, file: recordFile{path: cfg.File}, changed: make(chan struct{}, 1),
		jobs: jobMap{dir: cfg.JobMappingDir, settled: time.Now().Add(jobMapSettle)},
		open: map[string]*account{}, closed: map[string]restapi.NamespaceUsage{}, told: map[string]float64{},
	}
}

// Begin opens the account of a task that holds these; none means no account.
func (l *Ledger) Begin(taskID string, held []restapi.Allocation) {
	if len(held) == 0 {
		return
	}
	l.mu.Lock()
	l.open[taskID] = newAccount(held, time.Now())
	l.mu.Unlock()
	l.wake()
}

// wake has Run look at once.
func (l *Ledger) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// End closes the account of a task that ended at a time, writes the record and
// returns it; nil without an account. It may wait up to 2 s for a last sample.
func (l *Ledger) End(ctx context.Context, taskID string, at time.Time) *Record {
	if !l.has(taskID) {
		return nil
	}
	last := l.cfg.Host.Readings(ctx)
	r := l.close(taskID, at, last)
	if r == nil {
		return nil
	}
	l.wake()
	if err := l.file.add(r); err != nil {
		l.cfg.Logger.Warn("a GPU task's record was not written", "alloc_id", r.AllocID, "task", r.Task, "error", err)
	}
	return r
}

func (l *Ledger) has(taskID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[taskID] != nil
}

// close makes the record and adds it to its namespace in one step, so that no
// scrape sees the task in neither or in both.
func (l *Ledger) close(taskID string, at time.Time, last *gpuhost.Readings) *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.open[taskID]
	if a == nil {
		return nil
	}
	delete(l.open, taskID)
	a.bookEnergy(last)
	r := a.close(at)
	l.count(r)
	return r
}

// Run books samples while accounts are open, and keeps the job mapping, until ctx
// ends. Call it once.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(samplePeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.changed:
		case <-ctx.Done():
			return
		}
		held := l.held()
		if len(held) == 0 {
			l.mapJobs(nil, nil)
			continue
		}
		readings := l.cfg.Host.Readings(ctx)
		l.book(readings)
		l.mapJobs(held, readings.Inventory)
	}
}

// held is what the open accounts hold.
func (l *Ledger) held() []restapi.Allocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []restapi.Allocation
	for _, a := range l.open {
		all = append(all, a.held...)
	}
	return all
}

// mapJobs writes the job mapping; the log is told of the same trouble once.
func (l *Ledger) mapJobs(held []restapi.Allocation, inv *gpuhost.Inventory) {
	trouble := ""
	if err := l.jobs.write(held, inv, time.Now()); err != nil {
		trouble = err.Error()
	}
	if trouble != l.jobsTrouble && trouble != "" {
		l.cfg.Logger.Warn("exporters are not told which allocation holds which GPU", "error", trouble)
	}
	l.jobsTrouble = trouble
}

func (l *Ledger) book(r *gpuhost.Readings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.open {
		a.book(r, restapi.ContainerMemory)
	}
}

// bookEnergy takes the counters of a last sample; the rest of it shows the GPU
// after the task.
func (a *account) bookEnergy(r *gpuhost.Readings) {
	if !r.Time.After(a.from) {
		return
	}
	for i, h := range a.held {
		for n := range r.GPUs {
			if r.GPUs[n].UUID == h.UUID && h.Share == "" {
				a.gpus[i].noteEnergy(r.GPUs[n].EnergyMillijoules)
			}
		}
	}
}
