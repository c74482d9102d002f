// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// task-driver LG-6: the place is found again, whatever the order of times.
func TestSeeker(t *testing.T) {
	out := func(at int64) entry { return entry{stream: stdout, time: at} }
	errs := func(at int64) entry { return entry{stream: stderr, time: at} }
	for _, tc := range []struct {
		name    string
		log     []entry
		shipped int // entries before the position
		from    int // entries that were rotated away
		want    []int
	}{
		{"nothing shipped", []entry{out(1), errs(2)}, 0, 0, []int{0, 1}},
		{"all shipped", []entry{out(1), errs(2)}, 2, 0, nil},
		{"in the middle", []entry{out(1), out(2), out(3)}, 2, 0, []int{2}},
		{"parts of a line share a time", []entry{out(1), out(1), out(1), out(2)}, 2, 0, []int{2, 3}},
		{"streams out of order", []entry{out(5), errs(3), out(4), errs(6)}, 2, 0, []int{2, 3}},
		{"a part between", []entry{out(5), errs(5), out(5), errs(5)}, 3, 0, []int{3}},
		{"clock set back", []entry{out(500), out(501), out(100), out(101)}, 3, 0, []int{3}},
		{"rotated away", []entry{out(1), out(2), out(3), out(4)}, 2, 3, []int{3}},
		{"the other stream was silent", []entry{errs(1), out(2), out(3), errs(4)}, 3, 0, []int{3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var pos position
			for _, e := range tc.log[:tc.shipped] {
				pos.advance(e)
			}
			decoded, err := decodePosition(pos.encode())
			must.NoError(t, err)
			must.Eq(t, pos, decoded)
			seek := newSeeker(decoded)
			var got []int
			for i := tc.from; i < len(tc.log); i++ {
				if seek.isNew(tc.log[i]) {
					got = append(got, i)
				}
			}
			must.Eq(t, tc.want, got)
		})
	}
}

func TestPositionFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.pos")
	f, pos, err := openPositionFile(path)
	must.NoError(t, err)
	must.Eq(t, position{}, pos)
	must.Eq(t, 0, f.seq)
	for i := range int64(5) {
		must.NoError(t, f.put(position{Last: i + 1}))
	}
	f.close()
	must.Less(t, slotSize-12, len(position{}.encode()))

	f, pos, err = openPositionFile(path)
	must.NoError(t, err)
	must.Eq(t, 5, pos.Last)
	f.close()

	// A torn record leaves the one before it.
	raw, err := os.ReadFile(path)
	must.NoError(t, err)
	raw[(5%2)*slotSize+20] ^= 0xff
	must.NoError(t, os.WriteFile(path, raw, 0o600))
	f, pos, err = openPositionFile(path)
	must.NoError(t, err)
	must.Eq(t, 4, pos.Last)
	must.NoError(t, f.put(position{Last: 6}))
	f.close()
	f, pos, err = openPositionFile(path)
	must.NoError(t, err)
	must.Eq(t, 6, pos.Last)
	f.close()
}
