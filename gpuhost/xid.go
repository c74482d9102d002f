// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"fmt"
	"strconv"
	"strings"
)

// XIDRules say which XID events make a GPU unhealthy. Fatal beats ignore, and
// what neither names follows the built-in choice.
type XIDRules struct {
	ignoreAll, fatalAll bool
	ignore, fatal       map[uint64]bool
}

// ParseXIDRules reads the two lists of an operator: XID numbers, or the word
// "all".
func ParseXIDRules(ignore, fatal []string) (XIDRules, error) {
	var rules XIDRules
	var err error
	if rules.ignoreAll, rules.ignore, err = parseXIDs(ignore); err != nil {
		return XIDRules{}, fmt.Errorf("xid_ignore: %w", err)
	}
	if rules.fatalAll, rules.fatal, err = parseXIDs(fatal); err != nil {
		return XIDRules{}, fmt.Errorf("xid_fatal: %w", err)
	}
	return rules, nil
}

func parseXIDs(words []string) (all bool, xids map[uint64]bool, err error) {
	xids = make(map[uint64]bool)
	for _, word := range words {
		if strings.EqualFold(word, "all") {
			all = true
			continue
		}
		xid, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return false, nil, fmt.Errorf("%q is neither an XID number nor \"all\"", word)
		}
		xids[xid] = true
	}
	return all, xids, nil
}

// isFatal says whether an XID makes its GPU unhealthy (cases DEV-14).
func (r XIDRules) isFatal(xid uint64) bool {
	switch {
	case r.fatal[xid]:
		return true
	case r.ignore[xid]:
		return false
	case r.fatalAll:
		return true
	case r.ignoreAll:
		return false
	}
	return xidTable[xid].fatal
}

// xidTable has the meaning of the XIDs that matter and the built-in choice. The
// rest are not fatal: they are logged and counted, and the queries of each
// inventory tell whether the GPU still works. 63 and 64 are about row remapping,
// whose state the inventory reads (health.go).
var xidTable = map[uint64]struct {
	fatal bool
	text  string
}{
	13:  {false, "fault in a program's graphics engine use"},
	31:  {false, "memory page fault of a program"},
	32:  {false, "corrupted push buffer"},
	38:  {false, "driver firmware error"},
	43:  {false, "a program's channel was reset"},
	45:  {false, "a program's channel was removed before its end"},
	46:  {true, "GPU stopped processing"},
	48:  {true, "double bit ECC error"},
	61:  {true, "internal microcontroller breakpoint"},
	62:  {true, "internal microcontroller halt"},
	63:  {false, "row remapping or page retirement recorded"},
	64:  {false, "row remapping or page retirement failed"},
	68:  {false, "video processor exception"},
	69:  {false, "fault in a program's graphics engine class"},
	74:  {true, "NVLink error"},
	79:  {true, "GPU has fallen off the bus"},
	92:  {false, "high rate of single bit ECC errors"},
	94:  {false, "contained ECC error"},
	95:  {true, "uncontained ECC error"},
	109: {true, "context switch timeout"},
	110: {true, "security fault"},
	119: {true, "GPU system processor does not answer"},
	120: {true, "GPU system processor error"},
	140: {true, "unrecovered ECC error"},
	143: {true, "GPU initialisation failure"},
}

// xidText names an XID for people, "Xid 79 (GPU has fallen off the bus)".
func xidText(xid uint64) string {
	if known, ok := xidTable[xid]; ok {
		return fmt.Sprintf("Xid %d (%s)", xid, known.text)
	}
	return fmt.Sprintf("Xid %d", xid)
}
