// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"
	"strconv"
)

// notAvailable stands in text answers for what the card does not tell.
const notAvailable = "N/A"

// The divisors from the units of gpuhost to those of the wire.
const (
	kibi = 1 << 10
	mebi = 1 << 20
	kilo = 1000
)

// scaled divides a value, cutting the rest; nil stays nil.
func scaled(v *uint64, by uint64) *uint64 {
	if v == nil {
		return nil
	}
	q := *v / by
	return &q
}

// number is the text of a value with its unit, which may be empty.
func number(v *uint64, unit string) string {
	if v == nil {
		return notAvailable
	}
	return strconv.FormatUint(*v, 10) + unit
}

// share is the text of "used / total unit"; both must be known.
func share(used, total *uint64, unit string) string {
	if used == nil || total == nil {
		return notAvailable
	}
	return fmt.Sprintf("%d / %d%s", *used, *total, unit)
}

func text(v *string) string {
	if v == nil {
		return notAvailable
	}
	return *v
}
