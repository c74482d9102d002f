// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// samples are the figures of one measurement.
type samples []float64

// median is 0 without samples.
func (s samples) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2
	}
	return sorted[mid]
}

// String is the median and, with more than one sample, the range.
func (s samples) String() string {
	switch len(s) {
	case 0:
		return "-"
	case 1:
		return figure(s[0])
	}
	return fmt.Sprintf("%s (%s … %s)", figure(s.median()), figure(slices.Min(s)), figure(slices.Max(s)))
}

// figure has three digits that count.
func figure(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// row is one measurement of both drivers.
type row struct {
	what, unit string
	values     map[string]samples // by driver
}

func (r *row) add(driver string, v float64) { r.values[driver] = append(r.values[driver], v) }

// table collects rows and remarks.
type table struct {
	rows  []*row
	notes []string
}

func (t *table) row(what, unit string) *row {
	r := &row{what: what, unit: unit, values: map[string]samples{}}
	t.rows = append(t.rows, r)
	return r
}

func (t *table) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// String is the table in Markdown.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| median (min … max) | `%s` | `%s` | ratio |\n| --- | --- | --- | --- |\n", peer, ours)
	for _, r := range t.rows {
		ratio := "-"
		if r.values[peer].median() > 0 && r.unit != "%" {
			ratio = fmt.Sprintf("%.2f", r.values[ours].median()/r.values[peer].median())
		}
		fmt.Fprintf(&b, "| %s, %s | %s | %s | %s |\n", r.what, r.unit, r.values[peer], r.values[ours], ratio)
	}
	b.WriteString("\n")
	for _, note := range t.notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}
	return b.String()
}
