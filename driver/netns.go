// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// procRoot is where the kernel tells about processes.
const procRoot = "/proc"

// bornWith are the interfaces that a network namespace has from its beginning: the
// loopback, and the fallback tunnels of whatever tunnel modules the host has loaded.
var bornWith = []string{
	"lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0",
}

// bareNamespace says whether nobody has given the network namespace of a process an
// interface. proc is procRoot, elsewhere only in tests.
func bareNamespace(proc string, pid int) (bool, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "net", "dev"))
	if err != nil {
		return false, fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		name, _, isInterface := strings.Cut(line, ":") // the two lines of headings have none
		if isInterface && !slices.Contains(bornWith, strings.TrimSpace(name)) {
			return false, nil
		}
	}
	return true, nil
}
