// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

// outcome is what one or more checks said. Names are warnings of cuda-compat §5.
type outcome struct {
	unmet []*unmet
	names map[string]bool
	// listedBranch: a term for a brand and a driver branch was met, so the image
	// itself lists this host as a target of its compat libraries.
	listedBranch bool
}

func (o *outcome) warn(name string) {
	if o.names == nil {
		o.names = map[string]bool{}
	}
	o.names[name] = true
}

// The names of warnings.
const (
	warnDisabled        = "disabled"
	warnFromTable       = "cuda-from-table"
	warnUnknownProperty = "unknown-property"
	warnUnknownValue    = "host-value-unknown"
	warnBranchClause    = "branch-clause"
	warnMinorVersion    = "minor-version-compat"
	warnBadMetadata     = "bad-metadata"
	warnForward         = "forward-compat"
	warnNotEnforced     = "not-enforced"
)

// evaluate checks one requirement against one GPU. The first term that holds decides.
func (o *outcome) evaluate(req requirement, host facts) {
	if req.dropped {
		o.warn(warnUnknownProperty)
	}
	if len(req.terms) == 0 {
		return
	}
	failures := make([]Alternative, 0, len(req.terms))
	for _, t := range req.terms {
		failing, unknown := t.firstFailing(host)
		if host.cudaFromTable && t.has("cuda") {
			o.warn(warnFromTable)
		}
		if failing < 0 {
			o.met(req, t, host, unknown)
			return
		}
		failures = append(failures, t.failure(failing, host))
	}
	o.unmet = append(o.unmet, &unmet{source: req.name, alternatives: decisiveFirst(failures), host: host})
}

// failure describes a term whose i-th factor does not hold.
func (t term) failure(i int, host facts) Alternative {
	return Alternative{Term: t.text(), Failing: t[i].text, Host: host.tell(t[i].property), failed: t[i], met: i}
}

// met notes what the user should know about the term that holds.
func (o *outcome) met(req requirement, t term, host facts, unknown bool) {
	if unknown {
		o.warn(warnUnknownValue)
	}
	if req.terms[0].has("cuda") && !t.has("cuda") {
		o.warn(warnBranchClause)
		o.listedBranch = o.listedBranch || (t.has("driver") && host.driver != "")
	}
}

// firstFailing is the index of the first factor that does not hold, -1 if all
// do. A value that the host does not tell counts as met, and unknown says so.
func (t term) firstFailing(host facts) (index int, unknown bool) {
	for i, f := range t {
		have := host.value(f.property)
		switch {
		case have == "":
			unknown = true
		case !f.holds(have):
			return i, false
		}
	}
	return -1, unknown
}

// value is the host's value of a property; empty when unknown.
func (f facts) value(property string) string {
	switch property {
	case "cuda":
		return string(f.cuda)
	case "driver":
		return string(f.driver)
	case "arch":
		return string(f.arch)
	}
	return f.brand
}

// tell names a property with the host's value.
func (f facts) tell(property string) string { return property + " " + orUnknown(f.value(property)) }

// holds compares the host's value, which is known.
func (f factor) holds(have string) bool {
	if f.property == "brand" {
		return (have == f.brand) == (f.operator == "=")
	}
	c := version(have).compare(f.version)
	switch f.operator {
	case "=":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}
