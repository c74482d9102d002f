// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// DefaultHealthyAfter is how long a GPU must be free of faults before it is
// trusted again: three checks at the usual interval of a minute.
const DefaultHealthyAfter = 3 * time.Minute

// DefaultPatience is how long a reader waits for a fresh answer: no request to a
// server may take longer.
const DefaultPatience = 2 * time.Second

// Config says where the driver of a host is. The zero value is the machine itself.
type Config struct {
	// DriverRoot is the root file system in which the driver is installed;
	// empty means "/".
	DriverRoot string
	// NVMLLibrary names libnvidia-ml.so.1 itself when it is somewhere else;
	// empty means it is looked for under DriverRoot.
	NVMLLibrary string
	// Logger hears of changes and oddities, each once; nil means silence.
	Logger hclog.Logger
	// CallLimit is how long one NVML call may take before its GPU counts as
	// hung; zero means 2 s.
	CallLimit time.Duration
	// Patience is how long a reader waits for a fresh answer before it takes the
	// last one; zero means DefaultPatience. A command line has more than a server.
	Patience time.Duration
	// HealthyAfter is how long a GPU that had a fault must be free of faults
	// before it is trusted again; zero means DefaultHealthyAfter.
	HealthyAfter time.Duration
	// XID says which XID events make a GPU unhealthy; the zero value is the
	// built-in choice.
	XID XIDRules
	// Inject are XID events to play, each once. They need a watcher, as real ones.
	Inject []Injection
}

// Host is one GPU host. Safe for concurrent use.
type Host struct {
	cfg  Config
	root root
	log  hclog.Logger

	hostLane  *lane // calls that concern no single GPU
	inventory shared[*Inventory]
	readings  shared[*Readings]
	watchers  watchers

	work         sync.Mutex // one look or sample at a time; guards the rest of this block
	session      *session   // nil without a driver
	kernel       string     // version of the kernel module that the faults are of
	survey       *survey    // the last look; nil before the first
	nvmlPath     string     // where the library was found, inside the root
	mismatch     [2]int     // GPUs on the bus and in NVML when NVML was started anew
	mismatchTime time.Time
	late         lateStart
	cuda         cudaState
	told         *string          // the reason that was logged last
	injections   []Injection      // that were not played yet
	lastID       map[int]identity // who was at an index last
	known        map[string]GPU   // every GPU that was ever seen, by bus id

	factsMu sync.Mutex // guards facts
	facts   map[factKey]knownFacts

	faultsMu sync.Mutex       // guards faults
	faults   map[string]fault // by UUID

	xidsMu sync.Mutex                   // guards xids
	xids   map[string]map[uint64]uint64 // events by UUID and XID

	onceMu sync.Mutex // guards done
	done   map[string]bool
}

// Open prepares a host. It fails only for an impossible configuration (a
// relative path); a missing or broken driver is told by Inventory's Reason.
func Open(cfg Config) (*Host, error) {
	if cfg.DriverRoot == "" {
		cfg.DriverRoot = "/"
	}
	if !filepath.IsAbs(cfg.DriverRoot) {
		return nil, fmt.Errorf("driver root %q must be an absolute path; use \"/\" for a driver installed on this machine", cfg.DriverRoot)
	}
	if cfg.NVMLLibrary != "" && !filepath.IsAbs(cfg.NVMLLibrary) {
		return nil, fmt.Errorf("NVML library %q must be an absolute path; leave it empty to have it looked for", cfg.NVMLLibrary)
	}
	if cfg.HealthyAfter == 0 {
		cfg.HealthyAfter = DefaultHealthyAfter
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	h := &Host{
		cfg: cfg, root: root(filepath.Clean(cfg.DriverRoot)), log: cfg.Logger,
		facts: make(map[factKey]knownFacts), lastID: make(map[int]identity),
		known: make(map[string]GPU), injections: slices.Clone(cfg.Inject),
		faults: make(map[string]fault), done: make(map[string]bool),
		xids: make(map[string]map[uint64]uint64),
	}
	h.hostLane = h.newLane()
	h.hostLane.freed = h.tellLate
	h.inventory = shared[*Inventory]{log: h.log, renew: h.renewInventory, patience: cfg.Patience, value: &Inventory{Reason: "the driver has not answered yet"}}
	h.readings = shared[*Readings]{log: h.log, renew: h.renewReadings, patience: cfg.Patience, value: &Readings{}}
	return h, nil
}

// newLane makes a lane with this host's limit.
func (h *Host) newLane() *lane {
	l := newLane(h.cfg.CallLimit)
	l.log = h.log
	return l
}

// Close ends all use of NVML by this host. It waits for calls in progress, but
// not for one that hangs. What is asked afterwards gets the last answer.
func (h *Host) Close() {
	h.inventory.close()
	h.readings.close()
	h.work.Lock()
	defer h.work.Unlock()
	h.cuda.stop() // first: its process must not outlive a caller that does not wait
	if h.session != nil {
		h.end(h.session)
		h.session = nil
	}
	h.closeLate()
}

// Inventory tells what the host has now. It is never nil and never waits longer
// than Config.Patience: when the driver is slower it returns the last known inventory.
// Static facts are asked once for each GPU and driver version.
func (h *Host) Inventory(ctx context.Context) *Inventory { return h.inventory.get(ctx) }

// Readings returns a sample not older than one second, or the last one when
// NVML takes longer than Config.Patience. All callers share it. Never nil.
func (h *Host) Readings(ctx context.Context) *Readings { return h.readings.get(ctx) }

// ReadingsNow is a sample of after the call, however fresh others are: for questions
// about what has just changed. When NVML takes longer than Config.Patience it is the
// last one all the same, as its Time tells.
func (h *Host) ReadingsNow(ctx context.Context) *Readings {
	h.readings.expire()
	return h.readings.get(ctx)
}
