// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// unmet is something the image asks for that a GPU of the task does not offer.
type unmet struct {
	source       string
	alternatives []Alternative // of a requirement; the decisive one first
	image        imageCUDA     // of CUDA_VERSION or the label
	host         facts
}

// maxAlternatives bounds the alternatives that an answer lists.
const maxAlternatives = 100

// decisiveFirst orders the terms that failed: those that ask for a newer CUDA
// first, because that is what people can act on (CMP-03), then the ones that
// come closest.
func decisiveFirst(failed []Alternative) []Alternative {
	slices.SortStableFunc(failed, func(a, b Alternative) int {
		if x, y := a.failed.property == "cuda", b.failed.property == "cuda"; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.met, a.met)
	})
	return failed[:min(len(failed), maxAlternatives)]
}

// cuda is the CUDA version that is asked for, if that is the decisive point.
func (u *unmet) cuda() (string, bool) {
	if len(u.alternatives) == 0 {
		return string(u.image.version), true
	}
	f := u.alternatives[0].failed
	return string(f.version), f.property == "cuda" && f.operator == ">="
}

// need is the decisive point in words.
func (u *unmet) need() string {
	if v, ok := u.cuda(); ok {
		return "CUDA " + printable(v)
	}
	return printable(u.alternatives[0].Failing)
}

// lacks opens the message: what is needed, and what this node has.
func (u *unmet) lacks() string {
	_, isCUDA := u.cuda()
	switch {
	case isCUDA && u.host.driver == "":
		return fmt.Sprintf("needs %s; this node supports CUDA %s", u.need(), u.host.cuda)
	case isCUDA:
		return fmt.Sprintf("needs %s; this node's driver %s supports CUDA %s", u.need(), u.host.driver, u.host.cuda)
	}
	return fmt.Sprintf("needs %s; this node has %s", u.need(), u.alternatives[0].Host)
}

// origin says where the image says so, with the values that were compared.
func (u *unmet) origin() string {
	switch {
	case len(u.alternatives) > 0:
		return fmt.Sprintf("%s not met: %s (host: %s)", printable(u.source), printable(u.alternatives[0].Failing), u.hostAndGPU())
	case u.source == LabelCUDAVersion:
		return fmt.Sprintf("its label %s is %q", u.source, u.image.written)
	}
	return fmt.Sprintf("its %s is %q", u.source, u.image.written)
}

func (u *unmet) hostAndGPU() string {
	if u.host.gpu == "" {
		return u.host.String()
	}
	return u.host.String() + ", GPU " + printable(u.host.gpu)
}

// maxNamedAlternatives bounds the alternatives that a message spells out.
const maxNamedAlternatives = 6

// others lists the alternatives after the decisive one, each with its first
// failing factor and the host's value; brands in one go, because images list a
// dozen of them for each driver branch.
func (u *unmet) others() string {
	if len(u.alternatives) < 2 {
		return ""
	}
	var texts, brands []string
	for _, a := range u.alternatives[1:] {
		if a.failed.property == "brand" && a.failed.operator == "=" {
			if !slices.Contains(brands, a.failed.brand) {
				brands = append(brands, a.failed.brand)
			}
			continue
		}
		text := fmt.Sprintf("%s (%s)", printable(a.Failing), a.Host)
		if a.Term != a.Failing {
			text = printable(a.Term) + " at " + text
		}
		texts = append(texts, text)
	}
	more := ""
	if n := len(texts) - maxNamedAlternatives; n > 0 {
		texts, more = texts[:maxNamedAlternatives], fmt.Sprintf(", and %d more", n)
	}
	if len(brands) > 0 {
		texts = append(texts, fmt.Sprintf("brand=%s (%s)", printable(strings.Join(brands, "|")), u.host.tell("brand")))
	}
	return "; the alternatives are not met either: " + strings.Join(texts, ", ") + more
}
