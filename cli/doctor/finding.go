// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import "fmt"

// Level says how bad a finding is; a greater one is worse.
type Level int

// The levels of findings. Their numbers are the exit codes of the command.
const (
	OK Level = iota
	Warning
	Broken
)

// String gives the word for people and JSON.
func (l Level) String() string { return [...]string{"ok", "warning", "broken"}[l] }

// MarshalText gives the word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is the answer to one question.
type Finding struct {
	Name   string `json:"name"` // what was looked at, "Docker Engine"
	Level  Level  `json:"level"`
	Detail string `json:"detail"`         // what was found
	Cure   string `json:"cure,omitempty"` // what to do; empty when fine
}

func ok(name, format string, args ...any) Finding {
	return Finding{Name: name, Level: OK, Detail: fmt.Sprintf(format, args...)}
}

func warning(name, cure, format string, args ...any) Finding {
	return Finding{Name: name, Level: Warning, Detail: fmt.Sprintf(format, args...), Cure: cure}
}

func broken(name, cure, format string, args ...any) Finding {
	return Finding{Name: name, Level: Broken, Detail: fmt.Sprintf(format, args...), Cure: cure}
}

// Worst is the greatest level of all findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}
