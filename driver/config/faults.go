// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// ErrInvalid is in the chain of every error about a configuration value.
var ErrInvalid = errors.New("invalid configuration")

// fault is one wrong option. Its text needs no "invalid configuration" in front.
type fault struct{ text string }

func (f *fault) Error() string        { return f.text }
func (f *fault) Is(target error) bool { return target == ErrInvalid }

// faults collects what is wrong in one configuration.
type faults struct {
	where string // "plugin config" or "task config"
	list  []error
}

// add records a fault of the option at an HCL path.
func (f *faults) add(option, format string, args ...any) {
	f.list = append(f.list, &fault{f.where + ": " + option + ": " + fmt.Sprintf(format, args...)})
}

// err joins the faults; nil when there is none.
func (f *faults) err() error { return errors.Join(f.list...) }

// duration parses a Go duration; an empty text is the default. The key is the
// last element of the path, which users of the built-in driver know from its messages.
func (f *faults) duration(option, text, byDefault string) time.Duration {
	if text == "" {
		text = byDefault
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		f.add(option, "failed to parse '%s' duration: %v; use for example %q", lastKey(option), err, byDefault)
		return 0
	}
	return d
}

// positive parses a duration that must be above zero.
func (f *faults) positive(option, text, byDefault string) time.Duration {
	before := len(f.list)
	d := f.duration(option, text, byDefault)
	if len(f.list) == before && d <= 0 {
		f.add(option, "%q must be above zero; use for example %q", text, byDefault)
	}
	return d
}

// atLeast parses a duration with a lower limit.
func (f *faults) atLeast(option, text, byDefault string, limit time.Duration) time.Duration {
	before := len(f.list)
	d := f.duration(option, text, byDefault)
	if len(f.list) == before && d < limit {
		f.add(option, "%s is less than minimum: %q; use %s or more", lastKey(option), text, limit)
	}
	return d
}

// oneOf checks a word against the accepted ones.
func (f *faults) oneOf(option, value string, accepted ...string) {
	if !slices.Contains(accepted, value) {
		f.add(option, "%q is not known; use one of %s", value, quotedList(accepted))
	}
}

// absolute checks a path of the host or container.
func (f *faults) absolute(option, value, example string) {
	if !path.IsAbs(value) {
		f.add(option, "%q must be absolute; use for example %q", value, example)
	}
}

func lastKey(option string) string {
	return option[strings.LastIndexByte(option, '.')+1:]
}

func quotedList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, ", ")
}
