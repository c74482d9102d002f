// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestParseLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 60, time.UTC).UnixNano()
	const stamp = `"time":"2026-01-02T03:04:05.00000006Z"}`
	for _, tc := range []struct {
		name, line string
		want       entry
	}{
		{"usual", `{"log":"hello\n","stream":"stdout",` + stamp, entry{stdout, at, []byte("hello\n"), place{}}},
		{"stderr", `{"log":"x","stream":"stderr",` + stamp, entry{stderr, at, []byte("x"), place{}}},
		{"escapes", `{"log":"\"\\\t\u003c\u0000\ufffd\u2028","stream":"stdout",` + stamp, entry{stdout, at, []byte("\"\\\t<\x00\ufffd\u2028"), place{}}},
		{"surrogates", `{"log":"\ud83d\ude00","stream":"stdout",` + stamp, entry{stdout, at, []byte("😀"), place{}}},
		{"attributes", `{"log":"x\n","stream":"stderr","attrs":{"a":"b"},` + stamp, entry{stderr, at, []byte("x\n"), place{}}},
		{"other order", `{"stream":"stderr","log":"x\n",` + stamp, entry{stderr, at, []byte("x\n"), place{}}},
		{"behind a torn line", `{"log":"to{"log":"x\n","stream":"stdout",` + stamp, entry{stdout, at, []byte("x\n"), place{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseLine([]byte(tc.line), nil)
			must.NoError(t, err)
			must.Eq(t, tc.want, got)
		})
	}
	for _, bad := range []string{"", "\x00\x00", `{"log":"x`, `{"log":"x","stream":"stdout","time":"yesterday"}`} {
		_, err := parseLine([]byte(bad), nil)
		must.Error(t, err, must.Sprint(bad))
	}
}

// The quick reader agrees with the general one on all that the engine can write.
func FuzzParseLine(f *testing.F) {
	f.Add("text\n", true)
	f.Add("<&>\u2028\x00\"\\", false)
	f.Fuzz(func(t *testing.T, text string, toErr bool) {
		v := jsonLine{Log: text, Stream: "stdout", Time: time.Unix(1, 2).UTC()}
		if toErr {
			v.Stream = "stderr"
		}
		line, err := json.Marshal(v)
		must.NoError(t, err)
		quick, ok := parseUsual(line, nil)
		must.True(t, ok)
		var slow jsonLine
		must.NoError(t, json.Unmarshal(line, &slow))
		must.Eq(t, slow.Log, string(quick.data))
		must.Eq(t, toErr, quick.stream == stderr)
		must.Eq(t, slow.Time.UnixNano(), quick.time)
	})
}
