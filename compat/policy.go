// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"slices"
)

// Mode is a setting of the option "requirements".
type Mode string

// The settings of the option "requirements", the strictest first.
const (
	Enforce Mode = "enforce" // a refusal stops the task
	Warn    Mode = "warn"    // a refusal becomes a warning
	Ignore  Mode = "ignore"  // nothing is checked
)

var modes = []Mode{Enforce, Warn, Ignore}

// ParseMode reads a setting; empty means Enforce.
func ParseMode(s string) (Mode, error) {
	if s == "" {
		return Enforce, nil
	}
	if m := Mode(s); slices.Contains(modes, m) {
		return m, nil
	}
	return "", fmt.Errorf("requirements %q is not a setting; use %q, %q or %q", s, Enforce, Warn, Ignore)
}

// weaker says whether m checks less than n.
func (m Mode) weaker(n Mode) bool { return slices.Index(modes, m) > slices.Index(modes, n) }

// Policy is what the operator set, or, after [Policy.ForTask], what holds for a task.
type Policy struct {
	Requirements Mode // empty means Enforce
	// AllowOverride lets a job weaken the check: by its own setting of
	// requirements, or by NVIDIA_DISABLE_REQUIRE in the environment.
	AllowOverride bool
	// Overridden: the job weakened Requirements.
	Overridden bool
}

// ForTask gives the policy for a task whose gpu block sets requirements; empty
// means that it does not. A stricter setting than the operator's always holds, a
// weaker one is an error unless AllowOverride is set.
func (p Policy) ForTask(requirements string) (Policy, error) {
	operator, err := ParseMode(string(p.Requirements))
	if err != nil {
		return p, fmt.Errorf("plugin config: gpu.%w", err)
	}
	p.Requirements = operator
	if requirements == "" {
		return p, nil
	}
	task, err := ParseMode(requirements)
	if err != nil {
		return p, fmt.Errorf("task config: gpu.%w", err)
	}
	if task.weaker(operator) {
		if !p.AllowOverride {
			return p, fmt.Errorf("task config: gpu.requirements %q is weaker than %q, which this node's operator set without allow_override; remove it from the job", task, operator)
		}
		p.Overridden = true
	}
	p.Requirements = task
	return p, nil
}

// The variable that switches the check off, and a misspelling that does not.
const (
	EnvDisableRequire = "NVIDIA_DISABLE_REQUIRE"
	misspeltDisable   = "NVIDIA_DISABLE_REQUIRES"
)

// isTrue knows the words for true of the reference tools, and no others.
func isTrue(s string) bool {
	return slices.Contains([]string{"1", "t", "T", "true", "TRUE", "True"}, s)
}

// hintsOf tells about settings that look like an override and are none (CMP-05).
func hintsOf(md Metadata, p Policy) []string {
	var hints []string
	if _, ok := md.Env[misspeltDisable]; ok {
		hints = append(hints, misspeltDisable+" has no effect; the variable is called "+EnvDisableRequire)
	}
	switch value := md.Env[EnvDisableRequire]; {
	case isTrue(value) && !p.AllowOverride:
		hints = append(hints, EnvDisableRequire+" has no effect, because this node's operator set allow_override = false")
	case !isTrue(value) && !slices.Contains([]string{"", "0", "f", "F", "false", "FALSE", "False"}, value):
		hints = append(hints, fmt.Sprintf("%s=%s has no effect; the value to switch the check off is 1 or true", EnvDisableRequire, printable(value)))
	}
	return hints
}
