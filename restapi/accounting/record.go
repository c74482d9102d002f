// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"fmt"
	"strings"
	"time"
)

// Record is the account of one ended task; a line of JSON in the file.
type Record struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Group     string `json:"group"`
	Task      string `json:"task"`
	AllocID   string `json:"alloc_id"`
	Container string `json:"container"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// ObservedFrom is later than Started when the plugin was restarted between:
	// peak, mean and energy are those since then.
	ObservedFrom time.Time `json:"observed_from"`

	// GPUSeconds is the time from start to end, for each GPU, MIG device or share.
	GPUSeconds float64 `json:"gpu_seconds"`
	GPUs       []Usage `json:"gpus"`
}

// Usage is what a task made of one GPU, MIG device or share; nil is what the card
// does not tell, or not for the task alone.
type Usage struct {
	UUID            string   `json:"uuid"`
	Share           string   `json:"share,omitempty"`
	MIGProfile      string   `json:"mig_profile,omitempty"`
	PeakMemoryBytes *uint64  `json:"peak_memory_bytes"`
	MeanUtilization *float64 `json:"mean_utilization"` // 1 is busy all the time
	EnergyJoules    *float64 `json:"energy_joules"`
}

// String is the record in one line for people.
func (r *Record) String() string {
	noun := "GPUs"
	if len(r.GPUs) == 1 {
		noun = "GPU"
	}
	words := []string{fmt.Sprintf("Held %d %s for %s", len(r.GPUs), noun, r.Ended.Sub(r.Started).Round(time.Second))}
	if peak := r.peak(); peak != nil {
		words = append(words, fmt.Sprintf("peak memory %d MiB", *peak>>20))
	}
	if mean := r.mean(); mean != nil {
		words = append(words, fmt.Sprintf("mean utilisation %.0f %%", *mean*100))
	}
	if energy := r.energy(); energy != nil {
		words = append(words, fmt.Sprintf("energy %.0f J", *energy))
	}
	return strings.Join(words, ", ")
}

// peak is the sum of the peaks; nil unless all are known.
func (r *Record) peak() *uint64 {
	var sum uint64
	for _, u := range r.GPUs {
		if u.PeakMemoryBytes == nil {
			return nil
		}
		sum += *u.PeakMemoryBytes
	}
	return &sum
}

// mean is the mean utilisation of all; nil unless all are known.
func (r *Record) mean() *float64 {
	var sum float64
	for _, u := range r.GPUs {
		if u.MeanUtilization == nil {
			return nil
		}
		sum += *u.MeanUtilization / float64(len(r.GPUs))
	}
	return &sum
}

// energy is the sum of the energies; nil unless all are known.
func (r *Record) energy() *float64 {
	var sum float64
	for _, u := range r.GPUs {
		if u.EnergyJoules == nil {
			return nil
		}
		sum += *u.EnergyJoules
	}
	return &sum
}
