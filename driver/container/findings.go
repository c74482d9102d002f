// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"errors"
	"fmt"
	"slices"
)

// Warning is a line for the user: something is not as the job says, or not as
// safe as it could be. It becomes a task event.
type Warning string

// findings are what is wrong or remarkable with one area of a request. Each area
// returns its own; Assemble joins them, so that the user sees all at once.
type findings struct {
	errs     []error
	warnings []Warning
}

// option records a fault of a task option, by its HCL path.
func (f *findings) option(option, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("task config: "+option+": "+format, args...))
}

// fault records an error that is no task option's.
func (f *findings) fault(err error) { f.errs = append(f.errs, err) }

// warn records a line for the user.
func (f *findings) warn(format string, args ...any) {
	f.warnings = append(f.warnings, Warning(fmt.Sprintf(format, args...)))
}

// merge adds the findings of an area.
func (f *findings) merge(other findings) {
	f.errs = slices.Concat(f.errs, other.errs)
	f.warnings = slices.Concat(f.warnings, other.warnings)
}

// err joins the faults; nil when there is none.
func (f *findings) err() error { return errors.Join(f.errs...) }
