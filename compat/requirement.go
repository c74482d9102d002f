// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValueBytes is the longest label or variable that is evaluated (SEC-01). A
// longer requirement is refused; any other longer value is unreadable.
const MaxValueBytes = 64 << 10

// maxRequirementBytes bounds all requirements of an image together, names
// included, and with it the time of a decision.
const maxRequirementBytes = 4 * MaxValueBytes

// A requirement is one NVIDIA_REQUIRE_* variable: it holds if one of its terms
// does. Without terms it requires nothing.
type requirement struct {
	name  string
	terms []term
	// dropped: a factor with an unknown property was left out.
	dropped bool
}

// A term holds if all of its factors do. It has at least one.
type term []factor

func (t term) has(property string) bool {
	return slices.ContainsFunc(t, func(f factor) bool { return f.property == property })
}

// text is the term as the image writes it, without dropped factors.
func (t term) text() string {
	parts := make([]string, len(t))
	for i, f := range t {
		parts[i] = f.text
	}
	return strings.Join(parts, ",")
}

// A factor compares one property of the host with a value.
type factor struct {
	text     string // as the image writes it
	property string // in lower case
	operator string
	version  version // the value of all properties but brand
	brand    string
}

// syntaxError tells where a requirement is malformed.
type syntaxError struct {
	name   string
	factor string // empty: the fault is not in a single factor
	column int    // of the factor in the value, in characters, from 1
	cause  string
}

func (e *syntaxError) Error() string {
	if e.factor == "" {
		return fmt.Sprintf("invalid requirement %s: %s", printable(e.name), e.cause)
	}
	return fmt.Sprintf("invalid requirement %s: %s (at character %d: %s)",
		printable(e.name), printable(e.factor), e.column, e.cause)
}

// isBlank says what separates terms: ASCII blanks only, as in the reference tools.
func isBlank(r rune) bool { return r < utf8.RuneSelf && unicode.IsSpace(r) }

// parseRequirement reads a whole value before any of it is evaluated, so that a
// malformed one never depends on the host.
func parseRequirement(name, value string) (requirement, *syntaxError) {
	req := requirement{name: name}
	if len(value) > MaxValueBytes {
		return req, &syntaxError{name: name, cause: fmt.Sprintf("its value has %d bytes, at most %d are evaluated", len(value), MaxValueBytes)}
	}
	var t term
	for start := 0; start < len(value); {
		rest := value[start:]
		end := strings.IndexFunc(rest, func(r rune) bool { return r == ',' || isBlank(r) })
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			f, known, cause := parseFactor(rest[:end])
			if cause != "" {
				column := utf8.RuneCountInString(value[:start]) + 1
				return req, &syntaxError{name: name, factor: rest[:end], column: column, cause: cause}
			}
			if known {
				t = append(t, f)
			} else {
				req.dropped = true
			}
		}
		if endsTerm := end == len(rest) || rest[end] != ','; endsTerm && len(t) > 0 {
			req.terms, t = append(req.terms, t), nil
		}
		start += end + 1
	}
	if len(t) > 0 { // left open by a trailing comma
		req.terms = append(req.terms, t)
	}
	return req, nil
}

const operatorCharacters = "=!<>"

var operators = []string{"=", "!=", "<", "<=", ">", ">="}

// parseFactor reads "property operator value"; cause is the fault, if any.
// known is false for a well-formed factor about a property that we do not know.
func parseFactor(text string) (f factor, known bool, cause string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return f, false, "it contains a character that cannot be printed"
	}
	start := strings.IndexAny(text, operatorCharacters)
	if start < 0 {
		return f, false, `no operator; write property, operator and value, as in "cuda>=12.0"`
	}
	value := strings.TrimLeft(text[start:], operatorCharacters)
	f = factor{text: text, property: strings.ToLower(text[:start]), operator: text[start : len(text)-len(value)]}
	switch {
	case f.property == "":
		return f, false, "no property before the operator; use cuda, driver, arch or brand"
	case !slices.Contains(operators, f.operator):
		return f, false, fmt.Sprintf("%q is not an operator; use one of %s", f.operator, strings.Join(operators, " "))
	case value == "":
		return f, false, "no value after the operator"
	}
	known, cause = f.setValue(value)
	return f, known, cause
}

// setValue reads a factor's value as its property demands.
func (f *factor) setValue(value string) (known bool, cause string) {
	switch f.property {
	case "cuda", "driver", "arch":
		v, ok := parseVersion(value)
		if !ok {
			return true, fmt.Sprintf("%s is not a version; write numbers with dots between them", printable(value))
		}
		f.version = v
		return true, ""
	case "brand":
		if f.operator != "=" && f.operator != "!=" {
			return true, "a brand can only be equal (=) or unequal (!=)"
		}
		if strings.ContainsAny(value, operatorCharacters) {
			return true, "the value contains an operator"
		}
		f.brand = normalBrand(value)
		return true, ""
	}
	return false, ""
}
