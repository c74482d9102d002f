// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"slices"
	"strings"
)

// candidate is a driver that might do.
type candidate struct {
	driver version
	// exact: an image names this very version, so the branch alone says too little.
	exact bool
}

// Bounds of the advice: candidates taken from an image, branches named in a message.
const (
	maxWrittenCandidates = 64
	maxNamedBranches     = 5
)

// driverThatWouldDo repeats the check with each known driver release, and with
// each driver version that the image names: "384 or newer", or "of branch 470 or
// 535" when newer ones fail again. Empty when no known driver helps.
func (c check) driverThatWouldDo() string {
	all := c.candidates()
	from := len(all)
	for from > 0 && c.passesWith(all[from-1].driver) {
		from--
	}
	have := c.hosts[0].driver
	for from < len(all) && have != "" && all[from].driver.compare(have) <= 0 {
		from++
	}
	if from < len(all) {
		return all[from].name(have) + " or newer"
	}
	return c.passingBranches(all)
}

// candidates are in ascending order, each version once.
func (c check) candidates() []candidate {
	var all []candidate
	for _, r := range driverReleases {
		if !r.between {
			all = append(all, candidate{driver: r.driver})
		}
	}
	for _, v := range c.writtenDrivers() {
		if cudaOfDriver(v) != "" {
			all = append(all, candidate{driver: v, exact: true})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.driver.compare(b.driver) })
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.driver.compare(b.driver) == 0 })
}

// writtenDrivers are driver versions that the requirements name.
func (c check) writtenDrivers() []version {
	var found []version
	for _, r := range c.reqs {
		for _, t := range r.terms {
			for _, f := range t {
				if len(found) == maxWrittenCandidates {
					return found
				}
				if f.property == "driver" && !slices.Contains(found, f.version) {
					found = append(found, f.version)
				}
			}
		}
	}
	return found
}

// passesWith says whether all would be met with another driver.
func (c check) passesWith(driver version) bool {
	cuda := cudaOfDriver(driver)
	for _, h := range c.hosts {
		for _, r := range c.reqs {
			if !r.holds(h.withDriver(driver, cuda)) {
				return false
			}
		}
	}
	if c.writesCUDA() {
		return true
	}
	var o outcome
	o.compareCUDA(c.image, c.hosts[0].withDriver(driver, cuda))
	return len(o.unmet) == 0
}

// holds says whether a requirement is met, and nothing else.
func (r requirement) holds(host facts) bool {
	return len(r.terms) == 0 || slices.ContainsFunc(r.terms, func(t term) bool {
		failing, _ := t.firstFailing(host)
		return failing < 0
	})
}

// name is the branch, as people know drivers, unless the host is of that branch
// already or the image asks for an exact version.
func (k candidate) name(have version) string {
	if k.exact || k.driver.branch() == have.branch() {
		return string(k.driver)
	}
	return k.driver.branch()
}

// passingBranches names the newest branches that pass.
func (c check) passingBranches(all []candidate) string {
	var branches []string
	for _, k := range slices.Backward(all) {
		b := k.driver.branch()
		if len(branches) < maxNamedBranches && !slices.Contains(branches, b) && c.passesWith(k.driver) {
			branches = append(branches, b)
		}
	}
	if len(branches) == 0 {
		return ""
	}
	slices.Reverse(branches)
	return "of branch " + strings.Join(branches, " or ")
}
