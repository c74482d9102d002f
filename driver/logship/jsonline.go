// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonLine is one line of the log driver json-file.
type jsonLine struct {
	Log    string    `json:"log"`
	Stream string    `json:"stream"`
	Time   time.Time `json:"time"`
}

// The fixed parts of a line as the engine writes it.
var (
	lineStart   = []byte(`{"log":"`)
	streamStart = []byte(`","stream":"std`)
	timeStart   = []byte(`","time":"`)
)

// parseLine reads a line without its line feed. The text is appended to buf,
// which may be nil.
func parseLine(line, buf []byte) (entry, error) {
	if e, ok := parseUsual(line, buf); ok {
		return e, nil
	}
	var v jsonLine
	err := json.Unmarshal(line, &v)
	if err != nil {
		// An engine that died in the middle of a line wrote the next one behind
		// it. Quotes inside of a text are escaped: this finds a beginning only.
		if i := bytes.LastIndex(line, lineStart); i > 0 {
			return parseLine(line[i:], buf)
		}
		return entry{}, fmt.Errorf("line of the engine's log file is no JSON: %w", err)
	}
	e := entry{stream: stdout, time: v.Time.UnixNano(), data: append(buf, v.Log...)}
	if v.Stream == "stderr" {
		e.stream = stderr
	}
	return e, nil
}

// parseUsual reads a line without extra attributes, which is nearly every one,
// without the cost of a general decoder.
func parseUsual(line, buf []byte) (entry, bool) {
	rest, ok := bytes.CutPrefix(line, lineStart)
	if !ok {
		return entry{}, false
	}
	text, rest, ok := unquote(rest, buf)
	if !ok {
		return entry{}, false
	}
	if rest, ok = bytes.CutPrefix(rest, streamStart); !ok || len(rest) < 3 {
		return entry{}, false
	}
	e := entry{stream: stdout, data: text}
	if rest[0] == 'e' {
		e.stream = stderr
	}
	if rest, ok = bytes.CutPrefix(rest[3:], timeStart); !ok {
		return entry{}, false
	}
	stamp, ok := bytes.CutSuffix(rest, []byte(`"}`))
	if !ok {
		return entry{}, false
	}
	at, err := parseStamp(stamp)
	e.time = at
	return e, err == nil
}

// unquote appends the text before the closing quote to buf; rest begins with
// that quote.
func unquote(s, buf []byte) (text, rest []byte, ok bool) {
	for {
		i := bytes.IndexAny(s, `"\`)
		if i < 0 {
			return nil, nil, false
		}
		buf = append(buf, s[:i]...)
		if s = s[i:]; s[0] == '"' {
			return buf, s, true
		}
		if buf, s, ok = unescape(buf, s); !ok {
			return nil, nil, false
		}
	}
}

// shortEscapes are the escapes of one letter.
var shortEscapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'f': '\f', '"': '"', '\\': '\\', '/': '/'}

// unescape appends what the escape at the beginning of s stands for.
func unescape(buf, s []byte) (_, rest []byte, ok bool) {
	if len(s) < 2 {
		return nil, nil, false
	}
	if c, ok := shortEscapes[s[1]]; ok {
		return append(buf, c), s[2:], true
	}
	r, ok := hexRune(s)
	if !ok {
		return nil, nil, false
	}
	if s = s[6:]; utf16.IsSurrogate(r) {
		low, _ := hexRune(s)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			s = s[6:]
		}
	}
	return utf8.AppendRune(buf, r), s, true
}

// hexRune reads "\u" and four hexadecimal digits.
func hexRune(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}
