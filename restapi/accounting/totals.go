// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpu-docker/gpu-docker/restapi"
)

// count adds a record to its namespace. Namespaces are few; jobs are not, so no
// counter is kept for each. The caller holds the lock.
func (l *Ledger) count(r *Record) {
	sum := l.closed[r.Namespace]
	sum.Namespace = r.Namespace
	sum.GPUSeconds += r.GPUSeconds
	sum.Tasks++
	if energy := r.energy(); energy != nil {
		sum.EnergyJoules += *energy
	}
	l.closed[r.Namespace] = sum
}

// Usage tells what each namespace used since this process started, ended tasks
// and running ones, by name. Energy and number of tasks are those of ended ones.
func (l *Ledger) Usage() []restapi.NamespaceUsage {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := maps.Clone(l.closed)
	now := time.Now()
	for _, a := range l.open {
		sum := sums[a.held[0].Namespace]
		sum.Namespace = a.held[0].Namespace
		sum.GPUSeconds += a.seconds(now)
		sums[sum.Namespace] = sum
	}
	for name, sum := range sums {
		// A task's end becomes known after it; the counter must not run back to it.
		sum.GPUSeconds = max(sum.GPUSeconds, l.told[name])
		l.told[name] = sum.GPUSeconds
		sums[name] = sum
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b restapi.NamespaceUsage) int { return strings.Compare(a.Namespace, b.Namespace) })
}
