// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import "strings"

// version is digits separated by single dots, as written: "535.104.05". The
// empty version means unknown. Parts may have any number of digits, because the
// text comes from images that we do not control.
type version string

// parseVersion accepts s only if all of it is a version.
func parseVersion(s string) (version, bool) {
	if s == "" {
		return "", false
	}
	digits := false // the previous character was a digit
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits = true
		case c == '.' && digits:
			digits = false
		default:
			return "", false
		}
	}
	if !digits {
		return "", false
	}
	return version(s), true
}

// leadingVersion takes the version at the start of a host value, "535.104.05"
// of "535.104.05-grid". A value without one, or with nothing but zeros, was not
// really read (CMP-01) and is unknown.
func leadingVersion(s string) version {
	end := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(s)
	}
	v, ok := parseVersion(strings.TrimRight(s[:end], "."))
	if !ok || v.compare("0") == 0 {
		return ""
	}
	return v
}

// compare is negative, zero or positive as v is older than, equal to or newer
// than w. Parts compare as numbers; missing parts are zero.
func (v version) compare(w version) int {
	a, b := string(v), string(w)
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := compareNumbers(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// compareNumbers compares two decimal numbers of any length; empty is zero.
func compareNumbers(x, y string) int {
	x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(x, y)
}

// part is the n-th number, counted from 0, without leading zeros; "0" if missing.
func (v version) part(n int) string {
	rest := string(v)
	for ; n > 0; n-- {
		_, rest, _ = strings.Cut(rest, ".")
	}
	p, _, _ := strings.Cut(rest, ".")
	if p = strings.TrimLeft(p, "0"); p == "" {
		return "0"
	}
	return p
}

// majorMinor is the first two parts, "8.0" of "8.0.61".
func (v version) majorMinor() version { return version(v.part(0) + "." + v.part(1)) }

// branch is the first part, by which NVIDIA names driver branches.
func (v version) branch() string { return v.part(0) }
