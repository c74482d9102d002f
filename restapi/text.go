// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// sheet is a text answer in the making: indented lines, some with a value. In
// each maximal run of lines with values all values start in one column, two
// blanks behind the longest label (nvidia-docker-v1 GI-4).
type sheet struct {
	lines []line
}

type line struct {
	label  string // with its indentation and, if there is a value, its colon
	value  string
	valued bool
}

// value adds "label:  value"; depth counts levels of two blanks.
func (s *sheet) value(depth int, label, value string) {
	s.lines = append(s.lines, line{label: indent(depth) + label + ":", value: value, valued: true})
}

// plain adds a line without value, which ends a run.
func (s *sheet) plain(depth int, text string) {
	s.lines = append(s.lines, line{label: indent(depth) + text})
}

// blank adds an empty line, which ends a run.
func (s *sheet) blank() { s.lines = append(s.lines, line{}) }

// bytes renders all lines, aligning each run.
func (s *sheet) bytes() []byte {
	var out bytes.Buffer
	for start := 0; start < len(s.lines); {
		end := start
		for end < len(s.lines) && s.lines[end].valued {
			end++
		}
		writeRun(&out, s.lines[start:end])
		if end < len(s.lines) {
			out.WriteString(s.lines[end].label)
			out.WriteByte('\n')
			end++
		}
		start = end
	}
	return out.Bytes()
}

// writeRun writes lines that all have a value. Widths count characters.
func writeRun(out *bytes.Buffer, run []line) {
	width := 0
	for _, l := range run {
		width = max(width, utf8.RuneCountInString(l.label))
	}
	for _, l := range run {
		out.WriteString(l.label)
		out.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(l.label)+2))
		out.WriteString(l.value)
		out.WriteByte('\n')
	}
}

func indent(depth int) string { return strings.Repeat("  ", depth) }
