// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	_ "embed" // the list of functions
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// exportedCall is one function of the simulated libraries.
type exportedCall struct {
	name  string
	since int // first driver branch that has it
}

//go:embed nvml/calls.def
var callsDef string

// exportedCalls has the order of the slots in the counter file.
var exportedCalls = parseCalls(callsDef)

var callLine = regexp.MustCompile(`(?m)^CALL\((\w+), (\d+)\)`)

func parseCalls(text string) []exportedCall {
	var calls []exportedCall
	for _, m := range callLine.FindAllStringSubmatch(text, -1) {
		since, _ := strconv.Atoi(m[2]) // the pattern has digits only
		calls = append(calls, exportedCall{name: m[1], since: since})
	}
	return calls
}

var versionSuffix = regexp.MustCompile(`_v[0-9]+$`)

// callsNamed are the functions that a name means: itself with a version suffix
// ("_v1" for the one without), all versions without a suffix, all functions of
// NVML for "*".
func callsNamed(name string) []string {
	var names []string
	for _, c := range exportedCalls {
		base := versionSuffix.ReplaceAllString(c.name, "")
		switch {
		case name == c.name && base != c.name, name == base, name == base+"_v1" && base == c.name:
			names = append(names, c.name)
		case name == "*" && strings.HasPrefix(c.name, "nvml"):
			names = append(names, c.name)
		}
	}
	return names
}

// unknownCall says which functions have a name like the wrong one.
func unknownCall(name string) error {
	var close []string
	wanted := strings.ToLower(versionSuffix.ReplaceAllString(name, ""))
	for _, c := range exportedCalls {
		known := strings.ToLower(c.name)
		if wanted != "" && (strings.Contains(known, strings.TrimPrefix(wanted, "nvml")) || strings.Contains(wanted, known)) {
			close = append(close, c.name)
		}
	}
	if len(close) == 0 {
		for _, c := range exportedCalls {
			close = append(close, c.name)
		}
	}
	sort.Strings(close)
	return fmt.Errorf("no function %q in the simulated libraries; use \"*\" or one of %s", name, strings.Join(close, ", "))
}

// missingSymbols are the functions that the library of a driver does not have.
func (p *Profile) missingSymbols() []string {
	var missing []string
	for _, c := range exportedCalls {
		if c.since > driverBranch(p.DriverVersion) {
			missing = append(missing, c.name)
		}
	}
	for _, s := range p.MissingSymbols {
		missing = append(missing, callsNamed(s)...)
	}
	return missing
}

// driverBranch is the first number of a driver version, 535 of "535.104.05".
func driverBranch(version string) int {
	first, _, _ := strings.Cut(version, ".")
	branch, _ := strconv.Atoi(first) // validated form
	return branch
}
